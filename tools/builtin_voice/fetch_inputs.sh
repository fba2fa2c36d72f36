#!/bin/sh
# Prepares the training inputs on Debian 12 (bookworm), amd64, without installing anything:
#   fetch_inputs.sh FOLDER
# leaves FOLDER/in with lib/ (flite) and corpus.txt.gz, what train.py wants, and FOLDER/text with the unpacked text packages.
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/packages" && cd "$1"
(cd packages && for p in libflite1 libasound2 fortunes fortunes-min wordnet-base r-cran-janeaustenr wamerican-small wamerican \
    debian-faq debian-reference-en doc-debian dict-jargon; do apt-get download "$p"; done)
for d in packages/libflite1_*.deb packages/libasound2_*.deb; do dpkg -x "$d" speech; done
for d in packages/*.deb; do
  case "$d" in packages/libflite1_*|packages/libasound2_*) ;; *) dpkg -x "$d" text ;; esac
done
mkdir -p in/lib
for l in libflite libflite_usenglish libflite_cmulex libflite_cmu_us_slt libflite_cmu_us_rms; do
  cp -L "speech/usr/lib/x86_64-linux-gnu/$l.so.1" in/lib/
done
cp -L speech/usr/lib/x86_64-linux-gnu/libasound.so.2 in/lib/
python3 "$here/build_corpus.py" text in/corpus.txt.gz
