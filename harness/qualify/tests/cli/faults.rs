//! Workers that crash, hang, exhaust memory, chatter or are killed: each is a verdict that says what happened and where,
//! and the next case runs.

use super::project::{Project, group};
use camino::Utf8Path;
use ort_qualify::observation::{End, Observation, Stage};
use ort_qualify::worker::Request;
use ort_qualify::worker::fault::{Fault, Kind};
use ort_qualify::worker::launch::{Launch, Worker};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const CASE: &str = "sdpa_fp32/plain";

/// Verdict and reasons of the one case with a fault.
fn fault(fault: &str, rest: &str) -> (Project, String, String) {
    let project = Project::plain(rest);
    let run = project.run(&["--fault", fault]);
    assert_eq!(run.code, 1, "{}", run.json);
    let (verdict, reasons) = run.verdict(CASE);
    (project, verdict, reasons)
}

#[test]
fn a_crash_names_signal_and_stage_at_every_stage() {
    for stage in ["load", "session", "placement", "run", "compare", "exit"] {
        let (project, verdict, reasons) = fault(&format!("segfault@{stage}"), "");
        assert_eq!(verdict, format!("fail@{stage}"));
        assert!(reasons.contains(&format!("the worker died at stage {stage}: SIGSEGV (signal 11)")), "{reasons}");
        assert_eq!(project.evidence(CASE, "exit.txt"), "SIGSEGV (signal 11)\n");
    }
}

#[test]
fn an_abort_and_an_exit_are_told_apart_and_last_words_are_quoted() {
    let (_, verdict, reasons) = fault("abort@session", "");
    assert_eq!(verdict, "fail@session");
    assert!(reasons.contains("SIGABRT (signal 6)"), "{reasons}");
    let (_, verdict, reasons) = fault("exit@placement", "");
    assert_eq!(verdict, "fail@placement");
    assert!(reasons.contains("exit status 3"), "{reasons}");
}

#[test]
fn a_hang_ends_at_the_limit_gently_and_by_force_where_it_must() {
    let (project, verdict, reasons) = fault("hang@run", "timeout_s = 4");
    assert_eq!(verdict, "fail@run");
    assert!(reasons.contains("time limit of 4 s reached at stage run; ended by SIGTERM"), "{reasons}");
    assert!(reasons.contains("its last words: nothing more happens here"), "{reasons}");
    assert_eq!(project.evidence(CASE, "exit.txt"), "ended by SIGTERM at the time limit\n");
    let (_, _, reasons) = fault("hang-deaf@run", "timeout_s = 4");
    assert!(reasons.contains("ended by SIGKILL"), "{reasons}");
}

#[test]
fn a_worker_that_asks_for_too_much_memory_dies_of_its_limit() {
    let project = Project::plain("");
    project.edit("env-recipes/cpu.toml", "[host]", "[worker]\nmemory_limit_mib = 3000\n\n[host]");
    let run = project.run(&["--fault", "out-of-memory@run"]);
    let (verdict, reasons) = run.verdict(CASE);
    assert_eq!((run.code, verdict.as_str()), (1, "fail@run"));
    assert!(reasons.contains("SIGABRT") && reasons.contains("memory allocation of"), "{reasons}");
    let run = project.run(&["--rerun"]);
    assert_eq!(run.verdict(CASE).0, "pass", "{}", run.json);
}

#[test]
fn what_a_library_prints_does_not_disturb_the_protocol_and_is_kept() {
    let project = Project::plain("");
    let run = project.run(&["--fault", "chatter@run"]);
    assert_eq!((run.code, run.verdict(CASE).0.as_str()), (0, "pass"));
    assert_eq!(project.evidence(CASE, "stdout.log").lines().filter(|l| l.contains("finished")).count(), 2000);
    assert_eq!(project.evidence(CASE, "stderr.log").lines().filter(|l| l.contains("enters")).count(), 2000);
}

#[test]
fn a_crash_in_a_shared_worker_is_its_own_cases_and_the_next_one_gets_a_new_worker() {
    let project = Project::new(&group("sdpa_fp32_masked", "full padded holes", "isolation = \"shared\""));
    let run = project.run(&["--jobs", "1", "--fault", "segfault@run"]);
    for batch in ["full", "padded", "holes"] {
        let (verdict, reasons) = run.verdict(&format!("sdpa_fp32_masked/{batch}"));
        assert_eq!(verdict, "fail@run");
        assert!(reasons.contains("SIGSEGV"), "{reasons}");
    }
    let run = project.run(&["--jobs", "1"]);
    assert_eq!(run.code, 0, "a case that crashed is run again: {}", run.json);
    let shared = project.evidence("sdpa_fp32_masked/holes", "exit.txt");
    assert_eq!(shared, project.evidence("sdpa_fp32_masked/full", "exit.txt"), "one process served all");
}

#[test]
fn a_shared_worker_that_dies_after_its_last_case_fails_the_run() {
    let project = Project::new(&group("sdpa_fp32_masked", "full padded", "isolation = \"shared\""));
    let run = project.run(&["--jobs", "1", "--fault", "abort@exit"]);
    assert_eq!((run.code, run.verdict("sdpa_fp32_masked/padded").0.as_str()), (1, "pass"));
    assert_eq!(run.json["late_deaths"][0], "SIGABRT (signal 6)");
}

/// The request of a case that ran, with a fault put in and logs of its own.
fn request(project: &Project, fault: Option<Fault>) -> Request {
    project.run(&[]);
    let mut request: Request = serde_json::from_str(&project.evidence(CASE, "request.json")).unwrap();
    request.fault = fault;
    request.logs = project.root.join("logs");
    fs::create_dir_all(&request.logs).unwrap();
    request
}

fn launch(prefix: &[&str]) -> Launch {
    Launch {
        program: env!("CARGO_BIN_EXE_ort-qualify").into(),
        prefix: prefix.iter().map(|&word| word.to_owned()).collect(),
        env: [].into(),
        unset: Vec::new(),
        memory_limit_mib: None,
    }
}

#[test]
fn a_worker_that_is_killed_from_outside_names_the_signal() {
    let project = Project::plain("");
    let request = request(&project, Some(Fault { kind: Kind::Hang, stage: Stage::Compare }));
    let mut worker = Worker::start(&launch(&[]), &request.logs).unwrap();
    let pid = Pid::from_raw(i32::try_from(worker.id()).unwrap()).unwrap();
    let log = request.logs.join("stderr.log");
    let killer = std::thread::spawn(move || {
        while !fs::read_to_string(&log).unwrap_or_default().contains("nothing more happens") {
            std::thread::yield_now();
        }
        kill_process(pid, Signal::KILL).unwrap();
    });
    let (observation, lives) = worker.replay(&request, Duration::from_mins(2), Instant::now());
    killer.join().unwrap();
    assert!(!lives);
    assert_eq!(observation.stage, Stage::Compare);
    assert_eq!(observation.end, End::Died { how: "SIGKILL (signal 9)".to_owned(), out_of_memory: false });
}

/// A memory control group of its own, removed at the end.
struct ControlGroup(std::path::PathBuf);

impl ControlGroup {
    /// With a limit of that many MiB; `None` where this machine does not let us make one.
    fn new(mib: u64) -> Option<Self> {
        for (base, file) in [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")] {
            let folder = Path::new(base).join(format!("ort-qualify-test-{}", std::process::id()));
            if fs::create_dir(&folder).is_ok() {
                let group = Self(folder);
                if fs::write(group.0.join(file), (mib << 20).to_string()).is_ok() {
                    return Some(group);
                }
            }
        }
        None
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// What becomes of a worker that asks for all memory inside a control group of 512 MiB.
fn out_of_memory_in(group: &ControlGroup, logs: &Utf8Path, request: &Request) -> Observation {
    let script = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.0.display());
    let mut worker = Worker::start(&launch(&["sh", "-c", &script, "sh"]), logs).unwrap();
    worker.replay(request, Duration::from_mins(2), Instant::now()).0
}

#[test]
fn the_kernels_out_of_memory_killer_is_named() {
    let Some(group) = ControlGroup::new(512) else {
        eprintln!("not available: this machine lets us make no memory control group, so nobody can be killed by one");
        return;
    };
    let project = Project::plain("");
    let request = request(&project, Some(Fault { kind: Kind::OutOfMemory, stage: Stage::Run }));
    let observation = out_of_memory_in(&group, &request.logs, &request);
    assert_eq!(observation.stage, Stage::Run);
    assert_eq!(observation.end, End::Died { how: "SIGKILL (signal 9)".to_owned(), out_of_memory: true });
}
