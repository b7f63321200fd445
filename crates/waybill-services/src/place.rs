//! Where files go that PostgreSQL's user must be able to reach.
//!
//! A project may lie below a folder that only root can enter (`/root`, or a folder of `mktemp -d`). Run by root, the
//! server's user could not open its own data directory there, so it moves to `/var/tmp`, and a note in the wanted place
//! says so.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::ServiceError;
use crate::user::{self, User};

const NOTE: &str = "MOVED.txt";
/// Survives a restart of the machine, unlike `/tmp`.
const STAND_INS: &str = "/var/tmp";

/// Makes `wanted` (mode 0700, owned by the server's user) and returns where it really is: `wanted` itself, or its
/// stand-in.
pub(crate) fn private(wanted: &Path, user: Option<&User>) -> Result<PathBuf, ServiceError> {
    let wanted = absolute(wanted)?;
    fs::create_dir_all(&wanted).map_err(ServiceError::io(format!("making {}", wanted.display())))?;
    let Some(user) = user else {
        set_mode(&wanted, 0o700)?;
        return Ok(wanted);
    };
    // The first look is at the parents, the second one after the folder itself was given away.
    if !wanted.join(NOTE).exists() {
        user::give(&wanted, Some(user))?;
        set_mode(&wanted, 0o700)?;
        if user::can_write(user, &wanted)? {
            return Ok(wanted);
        }
    }
    let place = Path::new(STAND_INS).join(format!("waybill-{:016x}", fnv1a(wanted.as_os_str().as_encoded_bytes())));
    own(&place, 0o700, user.uid)?;
    user::give(&place, Some(user))?;
    let note = format!(
        "The data is in {}\nThis project was run by root, PostgreSQL must not run as root, and its user ({}) \
         can't enter this folder.\n\
         Remove both folders to begin with an empty database.\n",
        place.display(),
        user.name
    );
    fs::write(wanted.join(NOTE), note).map_err(ServiceError::io(format!("writing into {}", wanted.display())))?;
    Ok(place)
}

/// Removes the stand-in of a folder for temporary data once nothing is left in it.
pub(crate) fn leave(base: &Path) {
    if base.parent() == Some(Path::new(STAND_INS)) {
        // Another server may have its data there still.
        let _ = fs::remove_dir(base);
    }
}

/// A folder of ours in `/var/tmp` that everybody may read, for binaries.
pub(crate) fn shared_cache() -> Result<PathBuf, ServiceError> {
    let place = Path::new(STAND_INS).join("waybill-cache");
    own(&place, 0o755, 0)?;
    Ok(place)
}

/// Makes the folder, or checks that the one there is a real folder of root or of the server's user: anybody can make
/// one in `/var/tmp`.
fn own(place: &Path, mode: u32, also: u32) -> Result<(), ServiceError> {
    let doing = || ServiceError::io(format!("making {}", place.display()));
    match DirBuilder::new().mode(mode).create(place) {
        Ok(()) => set_mode(place, mode),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let found = fs::symlink_metadata(place).map_err(doing())?;
            if found.is_dir() && (found.uid() == 0 || found.uid() == also) {
                return Ok(());
            }
            Err(ServiceError::ForeignFolder { path: place.to_owned(), owner: found.uid() })
        }
        Err(error) => Err(doing()(error)),
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<(), ServiceError> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(ServiceError::io(format!("setting the mode of {}", path.display())))
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, ServiceError> {
    std::path::absolute(path).map_err(ServiceError::io(format!("resolving {}", path.display())))
}

/// FNV-1a, 64 bits (RFC 9923): the name of a stand-in must be the same after a change of compiler, unlike the standard
/// library's hash.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_matches_the_published_vectors() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
