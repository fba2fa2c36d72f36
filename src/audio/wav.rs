//! WAV files that appear whole or not at all: hidden temporary file in the same folder, fsync, rename.
//!
//! [`preflight`] finds what would stop the writing before any model is loaded. What is there already and is no regular
//! file (`/dev/null`, a FIFO) is written straight, in the form of a pipe.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

use hound::{SampleFormat, WavSpec, WavWriter};
use tempfile::{NamedTempFile, TempPath};

use super::pcm::{Format, Quantiser, Sample, Tally};
use super::pipe::{Container, PipeWriter, Reader};
use super::temporary::{self, Listed};
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
    // before `temporary`: closed first, then removed
    writer: WavWriter<BufWriter<File>>,
    file: File,
    temporary: TempPath,
    listed: Listed,
    target: Target,
    quantiser: Quantiser,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sink::Whole(whole) => f.debug_tuple("Whole").field(&whole.temporary).finish(),
            Sink::Straight(_) => f.write_str("Straight"),
        }
    }
}

impl WavFile {
    /// Starts a file that will stand at `path`; one that is there already is replaced by [`WavFile::finish`].
    ///
    /// # Errors
    /// As [`preflight`].
    pub fn create(path: &Path, rate: u32, format: Format) -> Result<Self> {
        let sink = match place(path)? {
            Place::Special => {
                let file = OpenOptions::new().write(true).open(path).map_err(|e| cannot_write(path, &e))?;
                let name = format!("`{}`", path.display());
                Sink::Straight(PipeWriter::new(file, &name, Container::Wav, rate, format)?)
            }
            Place::File(target) => {
                let (file, listed) = target.temporary(path)?;
                let (file, temporary) = file.into_parts();
                let writer = file
                    .try_clone()
                    .map_err(hound::Error::IoError)
                    .and_then(|file| WavWriter::new(BufWriter::with_capacity(1 << 16, file), spec(rate, format)))
                    .map_err(|e| cannot_write(path, &io_error(e)))?;
                Sink::Whole(Whole { writer, file, temporary, listed, target, quantiser: Quantiser::new(format) })
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
            let written = match self.quantiser.sample(x) {
                Sample::I16(v) => self.writer.write_sample(v),
                Sample::I24(v) => self.writer.write_sample(v),
                Sample::F32(v) => self.writer.write_sample(v),
            };
            written.map_err(|e| cannot_write(path, &io_error(e)))?;
        }
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        self.writer.finalize().map_err(io_error)?;
        if let Some(permissions) = self.target.permissions {
            self.file.set_permissions(permissions)?;
        }
        self.file.sync_all()?;
        drop(self.file);
        self.temporary.persist(&self.target.path).map_err(|e| e.error)?;
        drop(self.listed);
        // The name is durable once the folder is; some file systems cannot sync folders, and the file is whole anyhow.
        #[cfg(unix)]
        let _ = File::open(&self.target.folder).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

/// Checks that a file could be written at `path`, leaving everything as it was.
/// A file that is there already is fine: whether to replace it is up to the caller.
///
/// # Errors
/// The folder is missing or read-only, the path is a folder, the file is read-only, the name is too long, …
pub fn preflight(path: &Path) -> Result<()> {
    match place(path)? {
        Place::Special => Ok(()),
        Place::File(target) => target.temporary(path).map(drop),
    }
}

/// Makes `folder` with all that leads to it, and checks that files can be written there.
///
/// # Errors
/// Something on the way is a file, or the folder is read-only.
pub fn prepare_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| {
        let error = Error::io("cannot make the folder", folder, &e);
        match e.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => error.hint("a file of that name is in the way"),
            _ => with_cure(error, e.kind()),
        }
    })?;
    target(folder, folder.join("out.wav"), None)?.temporary(folder).map(drop)
}

/// Where a path leads.
enum Place {
    File(Target),
    /// A device, FIFO or socket.
    Special,
}

/// A regular file to be made or replaced.
struct Target {
    /// Links followed, so that a link stays and what it points at is replaced.
    path: PathBuf,
    folder: PathBuf,
    /// Of the file to be replaced.
    permissions: Option<Permissions>,
}

impl Target {
    /// An empty file beside the target. `path` is what messages call the target.
    fn temporary(&self, path: &Path) -> Result<(NamedTempFile, Listed)> {
        temporary::create(&self.folder).map_err(|e| match e.kind() {
            ErrorKind::PermissionDenied => read_only(path, &format!("the folder `{}`", self.folder.display())),
            // tempfile wraps the cause to add the path of the temporary file: no concern of the user's
            _ => cannot_write(path, &bare(&e)),
        })
    }
}

fn place(path: &Path) -> Result<Place> {
    let shown = path.display();
    if path.as_os_str().is_empty() {
        return Err(Error::usage("the output file has no name"));
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            let inside = path.join("out.wav");
            Err(Error::new(format!("cannot write `{shown}`: it is a folder"))
                .hint(format!("name a file in it, such as `{}`", inside.display())))
        }
        Ok(found) if found.permissions().readonly() => Err(read_only(path, "the file")),
        Ok(found) if !found.is_file() => Ok(Place::Special),
        Ok(found) => {
            let real = fs::canonicalize(path).map_err(|e| cannot_write(path, &e))?;
            target(path, real, Some(found.permissions())).map(Place::File)
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {
            if path.to_string_lossy().ends_with(std::path::MAIN_SEPARATOR) {
                return Err(Error::new(format!("cannot write `{shown}`: that names a folder"))
                    .hint(format!("name a file, such as `{}`", path.join("out.wav").display())));
            }
            // a link to nothing yet: make what it points at
            let real = match fs::read_link(path) {
                Ok(to) => path.parent().unwrap_or(Path::new("")).join(to),
                Err(_) => path.to_owned(),
            };
            target(path, real, None).map(Place::File)
        }
        Err(e) => Err(cannot_write(path, &e)),
    }
}

fn target(path: &Path, real: PathBuf, permissions: Option<Permissions>) -> Result<Target> {
    let folder = match real.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let found = fs::metadata(&folder).map_err(|e| match e.kind() {
        ErrorKind::NotFound => {
            Error::new(format!("cannot write `{}`: there is no folder `{}`", path.display(), folder.display()))
                .hint(format!("make it with `mkdir -p {}`", folder.display()))
        }
        _ => cannot_write(path, &e),
    })?;
    if !found.is_dir() {
        return Err(Error::new(format!("cannot write `{}`: `{}` is no folder", path.display(), folder.display())));
    }
    // The superuser may write there nevertheless, but a folder without any write permission is meant to stay as it is.
    #[cfg(unix)]
    if found.permissions().readonly() {
        return Err(read_only(path, &format!("the folder `{}`", folder.display())));
    }
    Ok(Target { path: real, folder, permissions })
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

/// The error of the operating system alone.
fn bare(error: &io::Error) -> io::Error {
    let inner = error.get_ref().and_then(std::error::Error::source).and_then(|e| e.downcast_ref::<io::Error>());
    match inner.unwrap_or(error).raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error.kind().into(),
    }
}

fn read_only(path: &Path, what: &str) -> Error {
    Error::new(format!("cannot write `{}`: {what} is read-only", path.display()))
        .hint("allow writing with `chmod u+w`, or choose another place")
}

fn cannot_write(path: &Path, cause: &io::Error) -> Error {
    with_cure(Error::io("cannot write", path, cause), cause.kind())
}

fn with_cure(error: Error, cause: ErrorKind) -> Error {
    match cause {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            error.hint("free some space or choose another disk")
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => error.hint("choose a place you may write to"),
        ErrorKind::InvalidFilename => error.hint("choose a shorter name"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

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
