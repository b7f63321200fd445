//! Finished documents in a directory.

#![expect(clippy::disallowed_methods, reason = "names and ages of temporary files; nothing else depends on them")]

use async_trait::async_trait;
use bytes::Bytes;
use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use uuid::Uuid;
use waybill_core::ports::{ObjectError, ObjectInfo, ObjectStore, PutOutcome, check_object_key};

/// Where objects are written before they get their name; no key may begin with it.
const INCOMING: &str = ".incoming";
/// A write that has taken so long belongs to a process that died.
const ABANDONED: Duration = Duration::from_secs(3600);
/// As common file systems allow per name.
const MAX_PART_BYTES: usize = 255;

/// Objects as files below one directory. The content type is not kept: every object of Waybill is a PDF.
#[derive(Debug, Clone)]
pub struct DiskObjects {
    root: PathBuf,
}

impl DiskObjects {
    /// Makes the directory if it is not there, and removes what writers left in it that died.
    ///
    /// # Errors
    /// The directory can't be made or read.
    pub fn new(root: impl Into<PathBuf>) -> Result<Self, ObjectError> {
        let root = root.into();
        let incoming = root.join(INCOMING);
        fs::create_dir_all(&incoming).map_err(|e| refused(&e))?;
        let now = SystemTime::now();
        for entry in fs::read_dir(&incoming).map_err(|e| refused(&e))?.flatten() {
            let written = entry.metadata().and_then(|meta| meta.modified()).unwrap_or(now);
            if now.duration_since(written).is_ok_and(|age| age > ABANDONED)
                && let Err(error) = fs::remove_file(entry.path())
            {
                tracing::warn!(error = %error, "objects.abandoned_write_not_removed");
            }
        }
        Ok(Self { root })
    }

    fn path(&self, key: &str) -> Result<PathBuf, ObjectError> {
        check_object_key(key)?;
        if key.split('/').any(|part| part.len() > MAX_PART_BYTES) || key.split('/').next() == Some(INCOMING) {
            return Err(ObjectError::BadKey(format!(
                "a part is longer than {MAX_PART_BYTES} octets, or it is reserved"
            )));
        }
        Ok(self.root.join(key))
    }
}

/// Permissions need a person; a name that is taken by a directory needs another key; the rest may pass.
fn refused(error: &io::Error) -> ObjectError {
    let kind = error.kind();
    if matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) {
        ObjectError::Denied(error.to_string())
    } else if matches!(kind, ErrorKind::NotADirectory | ErrorKind::IsADirectory | ErrorKind::InvalidFilename) {
        ObjectError::BadKey(error.to_string())
    } else {
        ObjectError::Unavailable(error.to_string())
    }
}

/// Linking a finished file to its name fails if the name is taken, on every Unix file system, and shows readers all of it or nothing.
fn put(root: &Path, path: &Path, bytes: &[u8]) -> io::Result<PutOutcome> {
    let incoming = root.join(INCOMING).join(Uuid::new_v4().simple().to_string());
    let outcome = write(&incoming, bytes).and_then(|()| publish(root, &incoming, path));
    let removed = fs::remove_file(&incoming);
    let outcome = outcome?;
    removed?;
    Ok(outcome)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn publish(root: &Path, finished: &Path, path: &Path) -> io::Result<PutOutcome> {
    let parent = path.parent().unwrap_or(root);
    let is_new = !parent.is_dir();
    // A part of the way is a file: `a/b` is an object, and `a/b/c` shall be one.
    let in_the_way = |error: io::Error| {
        if error.kind() == ErrorKind::AlreadyExists { ErrorKind::NotADirectory.into() } else { error }
    };
    fs::create_dir_all(parent).map_err(in_the_way)?;
    let outcome = match fs::hard_link(finished, path) {
        Ok(()) => PutOutcome::Created,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if path.is_dir() {
                return Err(ErrorKind::IsADirectory.into());
            }
            PutOutcome::Existed
        }
        Err(error) => return Err(error),
    };
    // The name has to survive a power cut too, and so have the directories that were made for it. Also for an object that existed:
    // its writer may not have come so far yet.
    let mut directory = Some(parent);
    while let Some(path) = directory {
        File::open(path)?.sync_all()?;
        directory = if is_new && path != root { path.parent() } else { None };
    }
    Ok(outcome)
}

fn missing_is_none<T>(result: io::Result<T>) -> Result<Option<T>, ObjectError> {
    match result {
        Ok(found) => Ok(Some(found)),
        // `a` is an object, `a/b` was asked for: there is no such object.
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(refused(&error)),
    }
}

/// Files are slow; the runtime's own threads must not wait for them.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ObjectError> {
    tokio::task::spawn_blocking(work).await.map_err(|e| ObjectError::Unavailable(e.to_string()))
}

#[async_trait]
impl ObjectStore for DiskObjects {
    async fn put_if_absent(&self, key: &str, bytes: Bytes, _content_type: &str) -> Result<PutOutcome, ObjectError> {
        let (root, path) = (self.root.clone(), self.path(key)?);
        blocking(move || put(&root, &path, &bytes)).await?.map_err(|e| refused(&e))
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, ObjectError> {
        let path = self.path(key)?;
        Ok(missing_is_none(blocking(move || fs::read(path)).await?)?.map(Bytes::from))
    }

    async fn head(&self, key: &str) -> Result<Option<ObjectInfo>, ObjectError> {
        let path = self.path(key)?;
        let found = missing_is_none(blocking(move || fs::metadata(path)).await?)?;
        Ok(found.filter(fs::Metadata::is_file).map(|meta| ObjectInfo { size: meta.len() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use waybill_testkit::contract;

    struct Directory(PathBuf);

    impl Directory {
        fn new() -> Self {
            Self(std::env::temp_dir().join(format!("waybill-objects-{}", Uuid::new_v4().simple())))
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    fn incoming(directory: &Directory) -> usize {
        fs::read_dir(directory.0.join(INCOMING)).unwrap().count()
    }

    #[tokio::test]
    async fn it_keeps_the_contract_of_the_object_store() {
        let directory = Directory::new();
        contract::objects::run(&DiskObjects::new(&directory.0).unwrap()).await;
        assert_eq!(incoming(&directory), 0, "nothing half-done stays");
    }

    #[tokio::test]
    async fn objects_outlive_the_process_and_abandoned_writes_do_not() {
        let directory = Directory::new();
        let objects = DiskObjects::new(&directory.0).unwrap();
        objects.put_if_absent("a/b.pdf", Bytes::from_static(b"x"), "").await.unwrap();
        let (old, young) = (directory.0.join(INCOMING).join("old"), directory.0.join(INCOMING).join("young"));
        let hours_ago = SystemTime::now() - 2 * ABANDONED;
        File::create_new(&old).unwrap().set_modified(hours_ago).unwrap();
        File::create_new(&young).unwrap();
        let again = DiskObjects::new(&directory.0).unwrap();
        assert_eq!(again.get("a/b.pdf").await, Ok(Some(Bytes::from_static(b"x"))));
        assert!(!old.exists() && young.exists());
    }

    #[tokio::test]
    async fn a_name_that_is_a_directory_is_no_object() {
        let directory = Directory::new();
        let objects = DiskObjects::new(&directory.0).unwrap();
        objects.put_if_absent("a/b", Bytes::from_static(b"x"), "").await.unwrap();
        assert_eq!((objects.get("a").await, objects.head("a").await), (Ok(None), Ok(None)));
        assert_eq!((objects.get("a/b/c").await, objects.head("a/b/c").await), (Ok(None), Ok(None)));
        for key in ["a", "a/b/c", ".incoming/x", &"k".repeat(256)] {
            let put = objects.put_if_absent(key, Bytes::new(), "").await;
            assert!(matches!(put, Err(ObjectError::BadKey(_))), "{key}: {put:?}");
        }
        assert_eq!(incoming(&directory), 0);
    }

    #[test]
    fn missing_rights_and_a_full_disk_are_told_apart() {
        assert!(matches!(refused(&ErrorKind::PermissionDenied.into()), ObjectError::Denied(_)));
        assert!(matches!(refused(&ErrorKind::StorageFull.into()), ObjectError::Unavailable(_)));
        let directory = Directory::new();
        DiskObjects::new(&directory.0).unwrap();
        let mode = fs::metadata(directory.0.join(INCOMING)).unwrap().permissions().mode();
        assert_eq!(mode & 0o700, 0o700);
    }
}
