//! The worker's side: reads requests, replays them, writes events.

use super::runtime::Runtime;
use super::{Event, REPLY_FD, Request, replay};
use crate::observation::process::Process;
use crate::observation::{Facts, Stage};
use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setrlimit};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

/// Serves cases until standard input ends. This is the whole life of `ort-qualify worker`.
///
/// `memory_limit_mib` limits the address space, so that a model that asks for too much ends in a failed allocation.
pub fn serve(memory_limit_mib: Option<u64>) -> io::Result<()> {
    limit(Resource::Core, 0)?;
    if let Some(mib) = memory_limit_mib {
        limit(Resource::As, mib << 20)?;
    }
    // Opened by its path: taking over a bare descriptor needs unsafe code, and both lead to the same pipe.
    let mut reply = OpenOptions::new().write(true).open(format!("/proc/self/fd/{REPLY_FD}"))?;
    let (sender, requests) = channel();
    let busy = Arc::new(AtomicBool::new(false));
    let busy_here = Arc::clone(&busy);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            busy_here.store(true, Ordering::SeqCst);
            if sender.send(line).is_err() {
                return;
            }
        }
        // Nobody waits for an answer any more: a case that is still running ends with the process.
        if busy_here.load(Ordering::SeqCst) {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    });
    let mut runtime = Runtime::default();
    let mut last_fault = None;
    for line in requests {
        let request: Request = serde_json::from_str(&line)?;
        redirect(&request)?;
        last_fault = request.fault;
        let mut facts = Facts::default();
        let outcome = {
            let mut enter = |stage| {
                say(&mut reply, &Event::Enters(stage))?;
                if let Some(fault) = request.fault {
                    fault.commit(stage);
                }
                Ok(())
            };
            replay::replay(&request, &mut runtime, &mut facts, &mut enter)
        };
        // Also where a stage failed: what was loaded is then of most interest.
        facts.process = Some(Process::observe());
        let facts = Box::new(facts);
        let event = match outcome {
            Ok(()) => Event::Finished(facts),
            Err(replay::Refusal(message)) => Event::Refused { message, facts },
        };
        // Idle before the answer is out: the parent may close our input as soon as it has it.
        busy.store(false, Ordering::SeqCst);
        say(&mut reply, &event)?;
    }
    if let Some(fault) = last_fault {
        fault.commit(Stage::Exit);
    }
    Ok(())
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
