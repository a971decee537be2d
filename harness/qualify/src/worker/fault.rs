//! Faults that a worker commits on demand, so that crashes, hangs and floods are tested on a real process.

use crate::observation::Stage;
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A fault and the stage at whose start it is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What happens.
    pub kind: Kind,
    /// When.
    pub stage: Stage,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The process gets SIGSEGV.
    Segfault,
    /// The process aborts.
    Abort,
    /// The process leaves with status 3.
    Exit,
    /// Nothing more happens.
    Hang,
    /// Nothing more happens, and SIGTERM is not heeded.
    HangDeaf,
    /// Memory is asked for until there is none.
    OutOfMemory,
    /// Much is printed on standard output and standard error, text like the protocol's own among it.
    Chatter,
}

impl Fault {
    /// Commits the fault if `stage` is its stage.
    pub fn commit(self, stage: Stage) {
        if self.stage != stage {
            return;
        }
        match self.kind {
            Kind::Segfault => {
                // Raised, not provoked: no unsafe code, and the parent sees the same death. More than once, since the
                // handler that Rust installs for stack overflows lets the first one pass.
                loop {
                    let _ = kill_process(getpid(), Signal::SEGV);
                }
            }
            Kind::Abort => std::process::abort(),
            Kind::Exit => std::process::exit(3),
            Kind::Hang => hang(),
            Kind::HangDeaf => {
                // SIGTERM is ignored the one way that needs no unsafe code: the process becomes one that ignores it.
                use std::os::unix::process::CommandExt;
                let error = std::process::Command::new("sh").args(["-c", "trap '' TERM; exec sleep 86400"]).exec();
                eprintln!("cannot become a deaf process: {error}");
                std::process::exit(3);
            }
            Kind::OutOfMemory => {
                let mut hoard = Vec::new();
                loop {
                    hoard.push(vec![1u8; 64 << 20]);
                    std::hint::black_box(&hoard);
                }
            }
            Kind::Chatter => {
                for _ in 0..2000 {
                    println!("{{\"finished\":{{}}}}");
                    eprintln!("{{\"enters\":\"run\"}}");
                }
            }
        }
    }
}

/// Says so on standard error first: whoever waits for the hang can tell that it has begun.
fn hang() -> ! {
    eprintln!("nothing more happens here");
    loop {
        std::thread::park();
    }
}

impl FromStr for Fault {
    type Err = String;

    /// `KIND@STAGE`, as `segfault@run`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, stage) = text.split_once('@').ok_or("a fault is KIND@STAGE, as segfault@run")?;
        let word = |w: &str| serde_json::Value::String(w.to_owned());
        let kind = serde_json::from_value(word(kind)).map_err(|e| e.to_string())?;
        let stage = serde_json::from_value(word(stage)).map_err(|e| e.to_string())?;
        Ok(Self { kind, stage })
    }
}
