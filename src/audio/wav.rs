//! WAV files that appear whole or not at all. A device or FIFO is written straight, in the form of a pipe.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use hound::{SampleFormat, WavSpec, WavWriter};

use super::pcm::{Format, Quantiser, Sample, Tally};
use super::pipe::{Container, PipeWriter, Reader};
use super::place::{Draft, Place, cannot_write, place};
use crate::error::{Error, Result};

/// The sizes in a WAV header have 32 bits; this leaves room for the header itself.
const MOST_BYTES: u64 = u32::MAX as u64 - 128;

/// A mono WAV file in the making. Dropped before [`WavFile::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct WavFile {
    path: PathBuf,
    sink: Sink,
}

enum Sink {
    Whole(Whole),
    Straight(PipeWriter<File>),
}

/// A regular file, still under its temporary name.
struct Whole {
    // before `draft`: closed first, then removed
    writer: WavWriter<BufWriter<File>>,
    draft: Draft,
    quantiser: Quantiser,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sink::Whole(whole) => f.debug_tuple("Whole").field(&whole.draft).finish(),
            Sink::Straight(_) => f.write_str("Straight"),
        }
    }
}

impl WavFile {
    /// Starts a file that will stand at `path`; one that is there already is replaced by [`WavFile::finish`].
    ///
    /// # Errors
    /// As [`super::place::preflight`].
    pub fn create(path: &Path, rate: u32, format: Format) -> Result<Self> {
        let sink = match place(path)? {
            Place::Special => {
                let file = OpenOptions::new().write(true).open(path).map_err(|e| cannot_write(path, &e))?;
                let name = format!("`{}`", path.display());
                Sink::Straight(PipeWriter::new(file, &name, Container::Wav, rate, format)?)
            }
            Place::File(target) => {
                let draft = target.draft(path)?;
                let writer = draft
                    .file
                    .try_clone()
                    .map_err(hound::Error::IoError)
                    .and_then(|file| WavWriter::new(BufWriter::with_capacity(1 << 16, file), spec(rate, format)))
                    .map_err(|e| cannot_write(path, &io_error(e)))?;
                Sink::Whole(Whole { writer, draft, quantiser: Quantiser::new(format) })
            }
        };
        Ok(Self { path: path.to_owned(), sink })
    }

    /// Appends samples.
    ///
    /// # Errors
    /// The disk is full or fails, or the file would outgrow what WAV can hold (4 GiB).
    pub fn write(&mut self, samples: &[f32]) -> Result<()> {
        match &mut self.sink {
            Sink::Straight(pipe) => match pipe.write(samples)? {
                Reader::Listening => Ok(()),
                Reader::Gone => Err(Error::new(format!("cannot write `{}`: its reader has gone", self.path.display()))),
            },
            Sink::Whole(whole) => whole.write(&self.path, samples),
        }
    }

    /// What was written so far.
    pub fn tally(&self) -> Tally {
        match &self.sink {
            Sink::Whole(whole) => whole.quantiser.tally(),
            Sink::Straight(pipe) => pipe.tally(),
        }
    }

    /// Completes the file and lets it appear at its path.
    ///
    /// # Errors
    /// The disk is full or fails; then nothing new stands at the path.
    pub fn finish(self) -> Result<Tally> {
        let tally = self.tally();
        if let Sink::Whole(whole) = self.sink {
            whole.finish().map_err(|e| cannot_write(&self.path, &e))?;
        }
        Ok(tally)
    }
}

impl Whole {
    fn write(&mut self, path: &Path, samples: &[f32]) -> Result<()> {
        let bytes = (self.quantiser.tally().samples + samples.len() as u64) * self.quantiser.format().bytes() as u64;
        if bytes > MOST_BYTES {
            return Err(Error::new(format!("cannot write `{}`: a WAV file holds at most 4 GiB", path.display()))
                .hint("write several files"));
        }
        for &x in samples {
            let sample = self.quantiser.sample(x);
            self.put(sample).map_err(|e| cannot_write(path, &io_error(e)))?;
        }
        Ok(())
    }

    fn put(&mut self, sample: Sample) -> hound::Result<()> {
        match sample {
            Sample::I16(v) => self.writer.write_sample(v),
            Sample::I24(v) => self.writer.write_sample(v),
            Sample::F32(v) => self.writer.write_sample(v),
        }
    }

    fn finish(self) -> io::Result<()> {
        self.writer.finalize().map_err(io_error)?;
        self.draft.publish()
    }
}

fn spec(rate: u32, format: Format) -> WavSpec {
    let sample_format = match format {
        Format::I16 | Format::I24 => SampleFormat::Int,
        Format::F32 => SampleFormat::Float,
    };
    WavSpec { channels: 1, sample_rate: rate, bits_per_sample: 8 * format.bytes() as u16, sample_format }
}

fn io_error(error: hound::Error) -> io::Error {
    match error {
        hound::Error::IoError(e) => e,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::super::place::{preflight, prepare_folder};
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn refusal(path: &Path) -> Error {
        let refused = preflight(path).unwrap_err();
        let again = WavFile::create(path, 24_000, Format::I16).unwrap_err();
        assert_eq!(refused.to_string(), again.to_string());
        refused
    }

    fn speak(path: &Path, samples: &[f32]) -> Tally {
        let mut file = WavFile::create(path, 24_000, Format::I16).unwrap();
        file.write(samples).unwrap();
        file.finish().unwrap()
    }

    #[test]
    fn a_file_appears_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.wav");
        let mut file = WavFile::create(&path, 24_000, Format::I16).unwrap();
        file.write(&[0.5, 2.0]).unwrap();
        assert_eq!(names(folder.path()).len(), 1);
        assert!(names(folder.path())[0].starts_with('.'));
        file.write(&[f32::NAN]).unwrap();
        assert_eq!(file.finish().unwrap(), Tally { samples: 3, clipped: 1, non_finite: 1 });
        assert_eq!(names(folder.path()), ["out.wav"]);
        let mut reader = hound::WavReader::open(&path).unwrap();
        assert_eq!((reader.spec().channels, reader.spec().sample_rate, reader.duration()), (1, 24_000, 3));
        assert_eq!(reader.samples::<i16>().map(Result::unwrap).collect::<Vec<_>>(), [16383, 32767, 0]);
        assert_eq!(fs::metadata(&path).unwrap().len(), 44 + 6);
    }

    #[test]
    fn all_formats_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        for format in [Format::I16, Format::I24, Format::F32] {
            let path = folder.path().join(format!("{format}.wav"));
            let mut file = WavFile::create(&path, 48_000, format).unwrap();
            file.write(&[0.25, -0.25, 1.0]).unwrap();
            file.finish().unwrap();
            let mut reader = hound::WavReader::open(&path).unwrap();
            assert_eq!(usize::from(reader.spec().bits_per_sample), 8 * format.bytes());
            if format == Format::F32 {
                assert_eq!(reader.samples::<f32>().map(Result::unwrap).collect::<Vec<_>>(), [0.25, -0.25, 1.0]);
            } else {
                let top = if format == Format::I16 { 32767 } else { 8_388_607 };
                assert_eq!(reader.samples::<i32>().map(Result::unwrap).collect::<Vec<_>>(), [top / 4, -(top / 4), top]);
            }
        }
    }

    #[test]
    fn dropped_before_the_end_it_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.wav");
        fs::write(&path, "precious").unwrap();
        let mut file = WavFile::create(&path, 24_000, Format::I16).unwrap();
        file.write(&[0.5; 100_000]).unwrap();
        drop(file);
        assert_eq!(names(folder.path()), ["out.wav"]);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn preflight_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.wav");
        preflight(&path).unwrap();
        assert!(names(folder.path()).is_empty());
        fs::write(&path, "precious").unwrap();
        preflight(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_missing_folder_is_named_with_its_cure() {
        let folder = tempfile::tempdir().unwrap();
        let error = refusal(&folder.path().join("no/such/out.wav"));
        let missing = folder.path().join("no/such");
        assert!(error.to_string().ends_with(&format!("there is no folder `{}`", missing.display())), "{error}");
        assert_eq!(error.cure().unwrap(), format!("make it with `mkdir -p {}`", missing.display()));
        prepare_folder(&missing).unwrap();
        speak(&missing.join("out.wav"), &[0.0]);
        assert_eq!(names(&missing), ["out.wav"]);
    }

    #[test]
    fn what_is_no_place_for_a_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(refusal(folder.path()).to_string().ends_with("it is a folder"));
        assert!(refusal(&folder.path().join("new/")).to_string().ends_with("that names a folder"));
        assert!(refusal(Path::new("")).to_string().contains("no name"));
        assert!(refusal(Path::new("a\0b.wav")).to_string().starts_with("cannot write"));
        assert!(refusal(&folder.path().join("x".repeat(300))).cure().unwrap().contains("shorter"));
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(refusal(&file.join("out.wav")).to_string().starts_with("cannot write"));
        let blocked = prepare_folder(&file.join("deep")).unwrap_err();
        assert!(blocked.cure().unwrap().contains("in the way"), "{blocked}");
        assert!(prepare_folder(&file).unwrap_err().cure().unwrap().contains("in the way"));
    }

    #[test]
    fn a_name_of_full_length_works() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{}.wav", "x".repeat(251)));
        speak(&path, &[0.0]);
        assert!(path.exists());
    }

    #[cfg(unix)]
    mod unix {
        use std::fs::Permissions;
        use std::os::unix::fs::{PermissionsExt, symlink};

        use super::*;

        fn mode(path: &Path) -> u32 {
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        }

        fn set_mode(path: &Path, mode: u32) {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }

        #[test]
        fn permissions_are_those_of_any_new_file_or_of_the_one_replaced() {
            let folder = tempfile::tempdir().unwrap();
            let (plain, spoken) = (folder.path().join("plain"), folder.path().join("out.wav"));
            File::create(&plain).unwrap();
            speak(&spoken, &[0.0]);
            assert_eq!(mode(&spoken), mode(&plain));
            set_mode(&spoken, 0o640);
            speak(&spoken, &[0.0]);
            assert_eq!(mode(&spoken), 0o640);
        }

        #[test]
        fn read_only_is_refused_even_to_the_superuser() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("out.wav");
            fs::write(&path, "precious").unwrap();
            set_mode(&path, 0o444);
            let error = refusal(&path);
            assert!(error.to_string().ends_with("the file is read-only"), "{error}");
            assert!(error.cure().unwrap().contains("chmod u+w"));
            set_mode(folder.path(), 0o555);
            let error = refusal(&folder.path().join("new.wav"));
            assert!(error.to_string().ends_with("is read-only"), "{error}");
            set_mode(folder.path(), 0o755);
        }

        #[test]
        fn a_link_stays_and_its_target_is_replaced() {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("real")).unwrap();
            let link = folder.path().join("link.wav");
            symlink("real/out.wav", &link).unwrap();
            for _ in 0..2 {
                speak(&link, &[0.5]); // first to nothing, then to a file
                assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
                assert_eq!(names(&folder.path().join("real")), ["out.wav"]);
            }
        }

        #[test]
        fn devices_and_fifos_are_written_straight() {
            speak(Path::new("/dev/null"), &[0.5]);
            assert!(!fs::metadata("/dev/null").unwrap().is_file());
            let folder = tempfile::tempdir().unwrap();
            let fifo = folder.path().join("fifo");
            assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
            preflight(&fifo).unwrap();
            let reader = std::thread::spawn({
                let fifo = fifo.clone();
                move || fs::read(fifo).unwrap()
            });
            assert_eq!(speak(&fifo, &[1.0]).samples, 1);
            let bytes = reader.join().unwrap();
            assert_eq!((&bytes[..4], &bytes[44..]), (&b"RIFF"[..], &[0xff, 0x7f][..]));
        }

        #[test]
        fn a_full_device_is_named() {
            let error = WavFile::create(Path::new("/dev/full"), 24_000, Format::I16).unwrap_err();
            assert!(error.to_string().contains("`/dev/full`: No space left"), "{error}");
        }

        /// Runs itself again in a process that may only write small files, which fails the way a full disk does.
        #[test]
        fn a_full_disk_is_named_and_leaves_nothing_behind() {
            const FOLDER: &str = "RTTS_TEST_FULL_DISK";
            if let Some(folder) = std::env::var_os(FOLDER) {
                let path = Path::new(&folder).join("out.wav");
                let mut file = WavFile::create(&path, 24_000, Format::I16).unwrap();
                let error = (0..1000).find_map(|_| file.write(&[0.5; 1000]).err()).unwrap();
                assert!(error.to_string().contains(&format!("`{}`", path.display())), "{error}");
                assert!(error.cure().unwrap().contains("free some space"));
                drop(file);
                // and where only the last bytes do not fit: 40 000 are more than the limit, less than the buffer
                let mut file = WavFile::create(&path, 24_000, Format::I16).unwrap();
                file.write(&[0.5; 20_000]).unwrap();
                let error = file.finish().unwrap_err();
                assert!(error.to_string().contains(&format!("`{}`", path.display())), "{error}");
                return;
            }
            let folder = tempfile::tempdir().unwrap();
            let name = "audio::wav::tests::unix::a_full_disk_is_named_and_leaves_nothing_behind";
            let child = std::process::Command::new("sh")
                .args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact \"$1\" --nocapture"])
                .arg(std::env::current_exe().unwrap())
                .arg(name)
                .env(FOLDER, folder.path())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stdout);
            assert!(child.status.success() && said.contains("1 passed"), "{said}");
            assert!(names(folder.path()).is_empty());
        }
    }
}
