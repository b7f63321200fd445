//! Who we are, and whom PostgreSQL runs as: it refuses to run as root.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::ServiceError;

/// The account to run a server as when we are root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// `None` when we are not root and everything just runs as ourselves.
pub(crate) fn unprivileged() -> Result<Option<User>, ServiceError> {
    if !is_root()? {
        return Ok(None);
    }
    let passwd = std::fs::read_to_string("/etc/passwd").map_err(ServiceError::io("reading /etc/passwd"))?;
    find(&passwd, "postgres").or_else(|| find(&passwd, "nobody")).map(Some).ok_or(ServiceError::NoUnprivilegedUser)
}

/// The standard library has no `geteuid`, and calling it through C would be unsafe code.
pub(crate) fn is_root() -> Result<bool, ServiceError> {
    let output = Command::new("id").arg("-u").output().map_err(ServiceError::io("running id -u"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim() == "0")
}

/// An entry of passwd(5): `name:password:uid:gid:...`. Accounts with root's id don't count.
fn find(passwd: &str, name: &str) -> Option<User> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok().filter(|&uid| uid != 0)?;
        let gid = fields.next()?.parse().ok()?;
        Some(User { name: name.to_owned(), uid, gid })
    })
}

/// Makes `command` run as `user`. As root the standard library also drops all supplementary groups when a user id is
/// set.
pub(crate) fn run_as(command: &mut Command, user: Option<&User>) {
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
}

/// Gives a file or folder to `user`.
pub(crate) fn give(path: &Path, user: Option<&User>) -> Result<(), ServiceError> {
    let Some(user) = user else { return Ok(()) };
    std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)).map_err(ServiceError::io(format!(
        "giving {} to {}",
        path.display(),
        user.name
    )))
}

/// Whether `user` can enter a folder, found out by entering it: mode bits alone would miss access lists and mount
/// options.
pub(crate) fn can_enter(user: &User, folder: &Path) -> Result<bool, ServiceError> {
    test_folder(user, folder, "cd -- \"$1\"")
}

/// Whether `user` can also make files there.
pub(crate) fn can_write(user: &User, folder: &Path) -> Result<bool, ServiceError> {
    test_folder(user, folder, "cd -- \"$1\" && [ -w . ]")
}

fn test_folder(user: &User, folder: &Path, script: &str) -> Result<bool, ServiceError> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "sh"]).arg(folder).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    run_as(&mut command, Some(user));
    Ok(command.status().map_err(ServiceError::io("looking for a folder to use"))?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\nodd:x:0:0::/:/bin/sh\nnobody:x:65534:65533:nobody:/:/bin/false\nshort:x\n";

    #[test]
    fn an_account_is_read_from_passwd() {
        assert_eq!(find(PASSWD, "nobody"), Some(User { name: "nobody".to_owned(), uid: 65534, gid: 65533 }));
    }

    #[test]
    fn missing_and_cut_lines_and_root_in_disguise_give_no_account() {
        for name in ["postgres", "short", "odd", "root", ""] {
            assert_eq!(find(PASSWD, name), None, "{name}");
        }
    }
}
