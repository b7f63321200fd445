//! A server process that never outlives us.
//!
//! A child can ask Linux for a signal at its parent's death, but only by unsafe code between fork and exec. Instead a
//! shell (the watcher) reads from a pipe whose other end only we hold. When we stop, panic or are killed, the pipe
//! closes and the watcher stops the server. The pipe's end is close-on-exec, so no other child of ours keeps it open.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::ServiceError;
use crate::deadline::Deadline;
use crate::user::{self, User};

/// $1 pid (negative: its process group), $2 signal, $3 seconds to wait before SIGKILL, $4 a folder to remove if we have gone, or nothing.
/// The word `stop` on the pipe means that we live and do the rest. A server that ended by itself is our business too:
/// then we end the watcher first, so it never signals a pid that was given to another process.
const WATCH: &str = r#"
trap '' HUP INT TERM
read -r word
kill -s "$2" -- "$1" 2>/dev/null
left=$(($3 * 5))
while kill -s 0 -- "$1" 2>/dev/null; do
  if [ "$left" -le 0 ]; then kill -s KILL -- "$1" 2>/dev/null; break; fi
  left=$((left - 1)); sleep 0.2
done
if [ "$word" != stop ] && [ -n "$4" ]; then rm -rf -- "$4"; fi
"#;

/// How to stop a kind of server, and what to tidy up.
pub(crate) struct StopRule {
    /// A signal's name without `SIG`.
    pub(crate) signal: &'static str,
    /// After this the server gets SIGKILL.
    pub(crate) grace: Duration,
    /// Signals the server's process group instead of the server alone, for one that doesn't end its own children.
    pub(crate) group: bool,
    /// A temporary folder that the watcher removes if we are killed.
    pub(crate) remove: Option<PathBuf>,
}

pub(crate) struct Supervised {
    server: Child,
    watcher: Child,
    pipe: Option<ChildStdin>,
    rule: StopRule,
}

impl Supervised {
    /// Starts `command` and its watcher, both outside our process group, so that a terminal's Ctrl-C reaches us alone.
    pub(crate) fn spawn(mut command: Command, user: Option<&User>, rule: StopRule) -> Result<Self, ServiceError> {
        user::run_as(&mut command, user);
        let doing = format!("starting {}", Path::new(command.get_program()).display());
        let mut server = command.process_group(0).spawn().map_err(ServiceError::io(doing))?;
        match watch(server.id(), &rule) {
            Ok((watcher, pipe)) => Ok(Self { server, watcher, pipe: Some(pipe), rule }),
            Err(error) => {
                // Nobody has seen this server yet; without a watcher it must not go on.
                let _ = server.kill();
                let _ = server.wait();
                Err(error)
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.id()
    }

    /// What the caller writes into the server's standard input; only once, and only if the command has a piped one.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.server.stdin.take()
    }

    /// The exit status if the server has ended by itself.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, ServiceError> {
        let status = self.server.try_wait().map_err(ServiceError::io("looking at the server's process"))?;
        if status.is_some() {
            self.dismiss_watcher();
        }
        Ok(status)
    }

    /// Has the server signalled, waits for the end, and uses SIGKILL on the server's own pid if the grace time is over.
    pub(crate) fn stop(&mut self) -> Result<(), ServiceError> {
        if let Some(mut pipe) = self.pipe.take() {
            // A watcher that has gone can't be told; then the grace time runs out.
            let _ = pipe.write_all(b"stop\n");
        }
        let deadline = Deadline::after(self.rule.grace);
        while self.ended()?.is_none() {
            if deadline.passed() {
                self.server.kill().map_err(ServiceError::io("killing the server"))?;
                self.server.wait().map_err(ServiceError::io("waiting for the server's end"))?;
                break;
            }
            Deadline::pause();
        }
        self.dismiss_watcher();
        Ok(())
    }

    fn dismiss_watcher(&mut self) {
        // Both fail only if it has gone already, which is what we want.
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // A destructor has nobody to tell. The watcher does the same work if this fails halfway.
        let _ = self.stop();
    }
}

/// The watcher runs as ourselves: it may then signal the server whatever user that is, and remove our folder.
fn watch(pid: u32, rule: &StopRule) -> Result<(Child, ChildStdin), ServiceError> {
    let mut command = Command::new("/bin/sh");
    // The server leads a group of its own: `spawn` asked for that.
    let target = if rule.group { format!("-{pid}") } else { pid.to_string() };
    command.args(["-c", WATCH, "waybill-watch", &target, rule.signal]);
    command.arg(rule.grace.as_secs().to_string()).arg(rule.remove.clone().unwrap_or_default());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/").process_group(0);
    let mut watcher = command.spawn().map_err(ServiceError::io("starting the shell that watches a server"))?;
    let pipe = watcher.stdin.take().ok_or_else(|| ServiceError::Step {
        step: "starting the shell that watches a server",
        detail: "it has no standard input".to_owned(),
    })?;
    Ok((watcher, pipe))
}
