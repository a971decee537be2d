//! The parent's side: starts a worker, hands it cases, and turns whatever becomes of it into an observation.

use super::{Event, REPLY_FD, Request};
use crate::observation::{End, FORMAT, Facts, Observation, Stage};
use camino::{Utf8Path, Utf8PathBuf};
use command_fds::{CommandFdExt, FdMapping};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long a worker that was asked to end (SIGTERM, or a closed standard input) may take before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Lines of standard error that an observation keeps.
const TAIL_LINES: usize = 20;

/// Bytes of standard error that are searched for those lines.
const TAIL_BYTES: u64 = 16 * 1024;

/// How workers are started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The `ort-qualify` binary.
    pub program: Utf8PathBuf,
    /// A command to put before it, as `["singularity", "exec", IMAGE]`; empty for none.
    pub prefix: Vec<String>,
    /// Environment variables to set before the process starts, and so before any library loads.
    pub env: BTreeMap<String, String>,
    /// Environment variables that the process must not inherit.
    pub unset: Vec<String>,
    /// Address space limit in MiB; `None` for none.
    pub memory_limit_mib: Option<u64>,
}

/// A worker that cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a worker process ({program}): {source}")]
pub struct LaunchError {
    program: Utf8PathBuf,
    source: io::Error,
}

/// A running worker process.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    /// `None` once the worker was asked to end.
    requests: Option<ChildStdin>,
    events: Receiver<Event>,
}

impl Worker {
    /// Starts a worker. What it prints before its first case goes to `logs/stdout.log` and `logs/stderr.log`.
    pub fn start(launch: &Launch, logs: &Utf8Path) -> Result<Self, LaunchError> {
        let words: Vec<&str> = launch.prefix.iter().map(String::as_str).chain([launch.program.as_str()]).collect();
        let failed = |source| LaunchError { program: launch.program.clone(), source };
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("worker");
        if let Some(limit) = launch.memory_limit_mib {
            command.args(["--memory-limit-mib", &limit.to_string()]);
        }
        for name in &launch.unset {
            command.env_remove(name);
        }
        command
            .envs(&launch.env)
            .stdin(Stdio::piped())
            .stdout(File::create(logs.join("stdout.log")).map_err(failed)?)
            .stderr(File::create(logs.join("stderr.log")).map_err(failed)?)
            .fd_mappings(vec![FdMapping { parent_fd: writer, child_fd: REPLY_FD }])
            .map_err(|e| failed(io::Error::other(e)))?;
        let mut child = command.spawn().map_err(failed)?;
        // The command still holds our copy of the pipe's writing end: without this drop the end of the worker would
        // not show as the end of its events.
        drop(command);
        let requests = child.stdin.take();
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(File::from(reader)).lines() {
                let Ok(line) = line else { break };
                // A line that is no event can only come from a process that is going wrong; its death tells more.
                let Ok(event) = serde_json::from_str(&line) else { continue };
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, requests, events })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Hands the worker one case and waits for its answer, its death or the limit. Says whether the worker lives on.
    pub fn replay(&mut self, request: &Request, limit: Duration, started: Instant) -> (Observation, bool) {
        let kills_before = out_of_memory_kills();
        let mut stage = Stage::Load;
        let sent = self.send(request);
        let deadline = Instant::now() + limit;
        let ended = loop {
            if sent.is_err() {
                break None;
            }
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Enters(entered)) => stage = entered,
                Ok(Event::Finished(facts)) => break Some((End::Finished, *facts)),
                Ok(Event::Refused { message, facts }) => break Some((End::Refused { message }, *facts)),
                Err(RecvTimeoutError::Timeout) => {
                    let by = self.end_by_force();
                    break Some((End::TimedOut { limit_s: limit.as_secs_f64(), by }, Facts::default()));
                }
                Err(RecvTimeoutError::Disconnected) => break None,
            }
        };
        let (end, facts) = ended.unwrap_or_else(|| {
            let how = self.wait_for_death();
            // The count is the machine's: it says something of this process only if that was killed in that way.
            let out_of_memory = how.starts_with("SIGKILL") && out_of_memory_kills() > kills_before;
            (End::Died { how, out_of_memory }, Facts::default())
        });
        let lives = matches!(end, End::Finished | End::Refused { .. });
        let observation = Observation {
            format: FORMAT,
            stage,
            end,
            facts,
            stderr_tail: tail(&request.logs.join("stderr.log")),
            elapsed_ms: started.elapsed().as_secs_f64() * 1e3,
        };
        (observation, lives)
    }

    /// Asks the worker to end and says how it did: `Ok` for a clean end, else how it died.
    pub fn finish(mut self) -> Result<(), String> {
        self.requests = None;
        // The reading thread drops its sender when the pipe closes, that is when the process is gone.
        let deadline = Instant::now() + GRACE;
        loop {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("it did not end within {} s and got {}", GRACE.as_secs(), self.end_by_force()));
                }
            }
        }
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(describe(status)),
            Err(e) => Err(format!("its status cannot be read: {e}")),
        }
    }

    fn send(&mut self, request: &Request) -> io::Result<()> {
        let pipe = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        pipe.write_all(&line)?;
        pipe.flush()
    }

    /// SIGTERM, and SIGKILL after [`GRACE`]; says which it took.
    fn end_by_force(&mut self) -> String {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may be gone already: then there is no process to signal, and the wait below finds its status.
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + GRACE;
        let gone = loop {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break true,
                Err(RecvTimeoutError::Timeout) => break false,
            }
        };
        if !gone {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        if gone { "SIGTERM" } else { "SIGKILL" }.to_owned()
    }

    /// Waits for a worker whose pipe has closed. One that closed it and lives on is killed.
    fn wait_for_death(&mut self) -> String {
        self.requests = None;
        let gone = self.wait_until_gone();
        if !gone {
            let _ = self.child.kill();
        }
        match self.child.wait() {
            Ok(_) if !gone => "it closed its pipe, lived on and was killed".to_owned(),
            Ok(status) => describe(status),
            Err(e) => format!("its status cannot be read: {e}"),
        }
    }

    /// Waits for the process itself, up to [`GRACE`].
    fn wait_until_gone(&self) -> bool {
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return false };
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        let limit = Timespec { tv_sec: GRACE.as_secs() as i64, tv_nsec: 0 };
        matches!(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)), Ok(1..))
    }
}

impl Drop for Worker {
    /// No worker outlives its handle.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// `SIGSEGV (signal 11)`, `exit status 3`.
fn describe(status: ExitStatus) -> String {
    let Some(number) = status.signal() else {
        return status.code().map_or_else(|| status.to_string(), |code| format!("exit status {code}"));
    };
    let named = [
        (Signal::SEGV, "SIGSEGV"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::ILL, "SIGILL"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::TERM, "SIGTERM"),
        (Signal::INT, "SIGINT"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::XFSZ, "SIGXFSZ"),
    ];
    match named.iter().find(|(signal, _)| signal.as_raw() == number) {
        Some((_, name)) => format!("{name} (signal {number})"),
        None => format!("signal {number}"),
    }
}

/// The kernel's count of out-of-memory kills since it started; 0 where it does not tell.
fn out_of_memory_kills() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok()).unwrap_or(0)
}

/// The last lines of a log, oldest first.
fn tail(path: &Utf8Path) -> Vec<String> {
    use std::io::{Read, Seek, SeekFrom};
    let Ok(mut file) = File::open(path) else { return Vec::new() };
    let size = file.metadata().map_or(0, |m| m.len());
    let mut bytes = Vec::new();
    if file.seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES))).is_err() || file.read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(|&l| l.to_owned()).collect()
}
