//! Files that appear whole or not at all: write beside the target, make it durable, rename.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Result};

/// Writes the file `path` by calling `write` on a hidden temporary beside it, which then takes its place.
///
/// On any error, whether the closure's or the disk's, the temporary is removed and an older file at
/// `path` stays as it was. A symbolic link is replaced, never the file behind it: in a folder that others write to, a link is
/// somebody else's word. A device or a pipe (`/dev/stdout`) must not be replaced by a file: it is written to directly.
pub fn write_atomically(path: impl AsRef<Path>, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let path = path.as_ref();
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            let folder = std::io::Error::from(std::io::ErrorKind::IsADirectory);
            return Err(Error::io(path, "write", folder));
        }
        Ok(metadata) if !metadata.is_file() => return write_directly(path, write),
        _ => {}
    }
    let mut file = AtomicFile::begin(path)?;
    write(&mut file.buffered)?;
    file.finish()
}

/// A file in the making, which appears when it is finished; dropped before, it leaves nothing.
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    buffered: BufWriter<File>,
    temporary: Temporary,
}

impl AtomicFile {
    /// # Errors
    /// If no file can be made beside `target`.
    pub fn begin(target: &Path) -> Result<Self> {
        let temporary = Temporary::beside(target);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary.0)
            .map_err(|e| Error::io(target, "write", e))?;
        // Tells other processes that the file is in use. Where files cannot be locked, nobody looks either.
        let _ = file.try_lock();
        Ok(Self {
            target: target.to_path_buf(),
            buffered: BufWriter::new(file),
            temporary,
        })
    }

    /// # Errors
    /// If the disk takes no more.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffered
            .write_all(bytes)
            .map_err(|e| Error::io(&self.target, "write", e))
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// If the disk is full: an older file at the path stays as it was.
    pub fn finish(self) -> Result<()> {
        finish(self.buffered)
            .and_then(|()| fs::rename(&self.temporary.0, &self.target))
            .map_err(|e| Error::io(&self.target, "write", e))?;
        sync_folder(&self.target);
        Ok(())
    }
}

/// Flushes to the disk: a full disk may report itself only here, so this must come before the rename.
fn finish(mut buffered: BufWriter<File>) -> std::io::Result<()> {
    buffered.flush()?;
    buffered.get_ref().sync_all()
}

fn write_directly(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|e| Error::io(path, "write", e))?;
    let mut buffered = BufWriter::new(file);
    write(&mut buffered)?;
    buffered.flush().map_err(|e| Error::io(path, "write", e))
}

/// Makes the rename itself survive a power cut. The file is complete already, and some file systems
/// cannot sync a folder, so a failure here is no failure of the write.
fn sync_folder(target: &Path) {
    if let Some(folder) = target.parent()
        && let Ok(folder) = File::open(folder)
    {
        let _ = folder.sync_all();
    }
}

/// A temporary file that is removed when dropped; after the rename there is nothing left to remove.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Temporary {
    /// The process id and a counter keep two writers of one target apart.
    fn beside(target: &Path) -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(
            ".{}-{}.tmp",
            std::process::id(),
            COUNTER.fetch_add(1, Ordering::Relaxed)
        ));
        Self(target.with_file_name(name))
    }
}

/// Removes what killed processes have left of a file that they were writing; a living one has locked its own.
pub fn remove_leftovers(target: &Path) {
    let own = |name: &OsStr| {
        let middle = target.file_name().unwrap_or_default().to_string_lossy();
        is_temporary(name) && name.to_string_lossy().starts_with(&format!(".{middle}."))
    };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten();
    for entry in entries.flatten().filter(|entry| own(&entry.file_name())) {
        let regular = entry.file_type().is_ok_and(|kind| kind.is_file());
        let abandoned = regular && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if abandoned {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A file that one process at a time may write: held from when it is looked whether it exists until it is there.
///
/// What is locked is a temporary beside it, which goes with the claim. Where files cannot be locked, nothing is held.
#[derive(Debug)]
pub struct Claim(Option<(File, Temporary)>);

impl Claim {
    /// # Errors
    /// [`Error::Usage`] if another process holds it, [`Error::Io`] if nothing can be written there.
    pub fn of(target: &Path) -> Result<Self> {
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(".0-0.tmp");
        let path = target.with_file_name(name);
        loop {
            let open = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
            let file = open.map_err(|e| Error::io(target, "write", e))?;
            match file.try_lock() {
                // Its last holder may have removed it since it was opened.
                Ok(()) if is_at(&file, &path) => return Ok(Self(Some((file, Temporary(path))))),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let reason = format!("{}: another command is writing this file", target.display());
                    return Err(Error::usage(reason));
                }
                Err(TryLockError::Error(_)) => {
                    let _ = fs::remove_file(&path);
                    return Ok(Self(None));
                }
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((file, temporary)) = self.0.take() {
            // Removed while it is still held: who opens it later opens another one.
            drop(temporary);
            drop(file);
        }
    }
}

/// Whether the open file is the one that has this name.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let same = |a: &fs::Metadata, b: &fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        matches!((file.metadata(), fs::metadata(path)), (Ok(a), Ok(b)) if same(&a, &b))
    }
    #[cfg(not(unix))]
    {
        file.metadata().is_ok() && path.exists()
    }
}

/// Whether a name is one that [`write_atomically`] gives to a file in the making.
pub fn is_temporary(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let middle = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
    let numbers = middle
        .and_then(|name| name.rsplit_once('.'))
        .map(|(_, numbers)| numbers);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers
        .and_then(|numbers| numbers.split_once('-'))
        .is_some_and(|(process, count)| is_number(process) && is_number(count))
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    }

    fn full_disk(path: &Path) -> Error {
        Error::io(path, "write", std::io::ErrorKind::StorageFull.into())
    }

    #[test]
    fn a_written_file_holds_the_bytes_and_nothing_stands_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        for text in ["first, which is longer", "second"] {
            write_atomically(&path, |w| {
                w.write_all(text.as_bytes()).unwrap();
                Ok(())
            })
            .unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(names_in(folder.path()), ["a.txt"]);
    }

    #[test]
    fn a_full_disk_keeps_the_old_file_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "old").unwrap();
        let error = write_atomically(&path, |w| {
            w.write_all(&[7; 100_000]).unwrap();
            Err(full_disk(&path))
        })
        .unwrap_err();
        assert_eq!(error.exit_code(), 1);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names_in(folder.path()), ["a.txt"]);
    }

    #[test]
    fn temporaries_are_told_by_their_names_and_nothing_else_is_one() {
        for target in ["config.toml", "a", "0000.png"] {
            let temporary = Temporary::beside(Path::new(target));
            assert!(is_temporary(temporary.0.file_name().unwrap()), "{temporary:?}");
        }
        for name in [
            ".a.tmp",
            "a.1-0.tmp",
            ".a.1-0",
            ".a.x-0.tmp",
            ".a.1-.tmp",
            ".hidden",
            "a.png",
            "",
        ] {
            assert!(!is_temporary(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn what_is_left_of_a_file_goes_but_not_while_somebody_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        for name in [".a.txt.1-0.tmp", ".b.txt.1-0.tmp", ".a.txt"] {
            fs::write(folder.path().join(name), "half").unwrap();
        }
        write_atomically(&path, |_| {
            remove_leftovers(&path);
            assert_eq!(names_in(folder.path()).len(), 3, "its own is there");
            Ok(())
        })
        .unwrap();
        assert_eq!(names_in(folder.path()), [".a.txt", ".b.txt.1-0.tmp", "a.txt"]);
    }

    #[test]
    fn a_failed_first_write_leaves_an_empty_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        assert!(write_atomically(&path, |_| Err(full_disk(&path))).is_err());
        assert!(names_in(folder.path()).is_empty());
    }

    #[test]
    fn the_file_does_not_exist_while_it_is_being_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_atomically(&path, |w| {
            w.write_all(b"half").and_then(|()| w.flush()).unwrap();
            assert!(!path.exists());
            Ok(())
        })
        .unwrap();
        assert!(path.exists());
    }

    #[test]
    fn an_unwritable_place_is_one_line_that_names_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let blocker = folder.path().join("file");
        fs::write(&blocker, "x").unwrap();
        for path in [
            blocker.join("a.npy"),
            folder.path().join("missing").join("a.npy"),
            folder.path().to_path_buf(),
        ] {
            let error = write_atomically(&path, |_| Ok(())).unwrap_err();
            let line = error.to_string();
            assert!(line.contains(path.to_str().unwrap()), "{line}");
            assert!(line.contains("cannot write") && !line.contains('\n'), "{line}");
        }
        assert_eq!(names_in(folder.path()), ["file"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_is_replaced_and_what_it_points_to_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_atomically(&link, |w| {
            w.write_all(b"new").unwrap();
            Ok(())
        })
        .unwrap();
        assert!(!link.is_symlink());
        assert_eq!(fs::read_to_string(&link).unwrap(), "new");
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_is_written_to_and_never_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let error = write_atomically("/dev/full", |w| {
            w.write_all(b"x").unwrap();
            Ok(())
        })
        .unwrap_err();
        assert!(error.to_string().contains("cannot write"), "{error}");
        assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    }
}
