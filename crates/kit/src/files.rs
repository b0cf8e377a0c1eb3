// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files read within a bound and written whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Opens a regular file, or a pipe, of at most `most_bytes`. A pipe waits for its writer.
///
/// # Errors
/// When it cannot be opened, is something else (a device has no end), or is larger.
pub fn open(path: &Path, most_bytes: u64) -> io::Result<Bounded> {
    let meta = fs::metadata(path)?;
    if !meta.is_file() && !meta.file_type().is_fifo() {
        let what = "neither a regular file nor a pipe";
        return Err(Error::new(ErrorKind::InvalidInput, what));
    }
    if meta.is_file() && meta.len() > most_bytes {
        return Err(too_large(most_bytes));
    }
    Ok(Bounded {
        file: File::open(path)?,
        left_bytes: most_bytes,
        most_bytes,
    })
}

/// Reads a regular file or a pipe of at most `most_bytes` as UTF-8.
///
/// # Errors
/// As [`open`], and when it is not UTF-8.
pub fn read_text(path: &Path, most_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    open(path, most_bytes)?.read_to_string(&mut text)?;
    Ok(text)
}

fn too_large(most_bytes: u64) -> Error {
    let what = format!("it holds more than {most_bytes} bytes");
    Error::new(ErrorKind::FileTooLarge, what)
}

/// A file that is read up to a bound; what lies beyond is an error and not an early end.
#[derive(Debug)]
pub struct Bounded {
    file: File,
    left_bytes: u64,
    most_bytes: u64,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        let left = self.left_bytes.checked_sub(count as u64);
        self.left_bytes = left.ok_or_else(|| too_large(self.most_bytes))?;
        Ok(count)
    }
}

/// A file that is written under another name in its folder and takes its own name by
/// [`finish`](Self::finish): whoever reads it sees the whole of it, old or new. Dropped before, it
/// leaves nothing. A pipe or a device is written as it is.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    /// Where the bytes go, and where they belong; `None` when they are there already.
    names: Option<(PathBuf, PathBuf)>,
}

impl WholeFile {
    /// Starts a file that will replace `path`, with the permissions of what it replaces.
    ///
    /// # Errors
    /// When its folder cannot be written to.
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        // A link stays a link: what it names is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let old = fs::metadata(&path).ok();
        if old.as_ref().is_some_and(|old| !old.is_file()) {
            let file = OpenOptions::new().write(true).open(&path)?;
            return Ok(WholeFile { file, names: None });
        }
        let name = path.file_name().ok_or(ErrorKind::InvalidFilename)?;
        let name = name.to_string_lossy();
        let half = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o666);
        let file = file.open(&half)?;
        let written = WholeFile {
            file,
            names: Some((half, path)),
        };
        if let Some(old) = old {
            written.file.set_permissions(old.permissions())?;
        }
        Ok(written)
    }

    /// Flushes the bytes to disk and gives the file its name.
    ///
    /// # Errors
    /// When the disk is full or fails; the old file is as it was.
    pub fn finish(mut self) -> io::Result<()> {
        let Some((half, path)) = &self.names else {
            return Ok(());
        };
        self.file.sync_all()?;
        fs::rename(half, path)?;
        self.names = None;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some((half, _)) = &self.names {
            // What is half written takes space that may be short; nothing depends on it.
            let _ = fs::remove_file(half);
        }
    }
}

/// Writes a file whole or not at all.
///
/// # Errors
/// As [`WholeFile::create`] and [`WholeFile::finish`]; the path is for the caller to name.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn devices_folders_and_large_files_are_refused() {
        for what in ["/dev/zero", "/dev/null", "/proc"] {
            let error = open(Path::new(what), 10).unwrap_err().to_string();
            assert!(error.contains("neither"), "{what}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        write(&file, "12345").unwrap();
        assert_eq!(read_text(&file, 5).unwrap(), "12345");
        assert!(read_text(&file, 4).is_err());
        // A file of unknown length, as those of /proc are.
        assert!(read_text(Path::new("/proc/self/status"), 100).is_err());
    }

    #[test]
    fn a_file_is_replaced_whole_or_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut half = WholeFile::create(&link).unwrap();
        half.write_all(b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"old");
        drop(half);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        write(&link, "new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(link.is_symlink());
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        assert!(write(Path::new("/dev/full"), "text").is_err());
        assert!(write(Path::new("/no/such/folder/file"), "text").is_err());
        assert!(write(Path::new("/"), "text").is_err());
        write(Path::new("/dev/null"), "text").unwrap();
    }
}
