//! The worker's side: reads requests, replays them, writes events.

use super::runtime::Runtime;
use super::{Event, REPLY_FD, Request, capture, replay};
use crate::observation::process::Process;
use crate::observation::{Facts, Stage};
use camino::Utf8PathBuf;
use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setrlimit};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

/// Serves cases until standard input ends. This is the whole life of `ort-qualify worker`.
///
/// `memory_limit_mib` limits the address space, so that a model that asks for too much ends in a failed allocation.
/// Without a pipe of its own, as when started by hand with a `request.json` on standard input, it answers on standard
/// output and leaves its logs in a temporary folder.
pub fn serve(memory_limit_mib: Option<u64>) -> io::Result<()> {
    limit(Resource::Core, 0)?;
    if let Some(mib) = memory_limit_mib {
        limit(Resource::As, mib << 20)?;
    }
    // Opened by its path: taking over a bare descriptor needs unsafe code, and both lead to the same pipe.
    let (mut reply, by_hand) = match OpenOptions::new().write(true).open(format!("/proc/self/fd/{REPLY_FD}")) {
        Ok(pipe) => (pipe, None),
        Err(_) => (File::from(rustix::io::dup(rustix::stdio::stdout())?), Some(tempfile::tempdir()?.keep())),
    };
    let (sender, requests) = channel();
    let busy = Arc::new(AtomicBool::new(false));
    let busy_here = Arc::clone(&busy);
    let has_parent = by_hand.is_none();
    std::thread::Builder::new().spawn(move || {
        // A stream of JSON values: one a line from the parent, or a file that a person formatted.
        for request in serde_json::Deserializer::from_reader(BufReader::new(io::stdin())).into_iter::<Request>() {
            busy_here.store(true, Ordering::SeqCst);
            let ends = request.is_err();
            if sender.send(request).is_err() || ends {
                return;
            }
        }
        // Nobody waits for an answer any more: a case that is still running ends with the process.
        if has_parent && busy_here.load(Ordering::SeqCst) {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    })?;
    let variables = Process::variables();
    let mut runtime = Runtime::default();
    let mut last_fault = None;
    for request in requests {
        let mut request = request?;
        if let Some(folder) = &by_hand {
            request.logs = Utf8PathBuf::try_from(folder.clone()).map_err(|e| io::Error::other(e.to_string()))?;
            eprintln!("logs and profile go to {}", request.logs);
        }
        redirect(&request)?;
        last_fault = request.fault;
        let event = replay_one(&request, &mut runtime, &variables, &mut reply);
        // Idle before the answer is out: the parent may close our input as soon as it has it.
        busy.store(false, Ordering::SeqCst);
        say(&mut reply, &event)?;
    }
    if let Some(fault) = last_fault {
        fault.commit(Stage::Exit);
    }
    Ok(())
}

/// One case: stages are told as they are entered, and the answer is what is given back.
fn replay_one(
    request: &Request,
    runtime: &mut Runtime,
    variables: &BTreeMap<String, String>,
    reply: &mut File,
) -> Event {
    let mut facts = Facts::default();
    let mut enter = |stage| {
        say(reply, &Event::Enters(stage))?;
        if let Some(fault) = request.fault {
            fault.commit(stage);
        }
        Ok(())
    };
    let outcome = match &request.capture {
        Some(capture) => capture::capture(request, capture, runtime, &mut facts, &mut enter),
        None => replay::replay(request, runtime, &mut facts, &mut enter),
    };
    // Also where a stage failed: what was loaded is then of most interest.
    facts.process = Some(Process::observe(variables));
    let facts = Box::new(facts);
    match outcome {
        Ok(()) => Event::Finished(facts),
        Err(replay::Refusal(message)) => Event::Refused { message, facts },
    }
}

/// One event, one line, one write.
fn say(reply: &mut File, event: &Event) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    reply.write_all(&line)
}

/// From here on, what this process and its libraries print belongs to the case's own logs.
fn redirect(request: &Request) -> io::Result<()> {
    let open = |name: &str| OpenOptions::new().create(true).append(true).open(request.logs.join(name));
    rustix::stdio::dup2_stdout(open("stdout.log")?)?;
    rustix::stdio::dup2_stderr(open("stderr.log")?)?;
    Ok(())
}

fn limit(resource: Resource, most: u64) -> io::Result<()> {
    Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
}
