//! A seat: the place of one long-lived worker. Cases that share it run one after another; a crash is the case's own.

use super::RunError;
use crate::case::{Case, Isolation};
use crate::observation::{End, Observation, Stage};
use crate::worker::Request;
use crate::worker::launch::{Launch, Worker};
use std::time::{Duration, Instant};

/// The place of one long-lived worker; empty until a case needs it.
#[derive(Debug, Default)]
pub struct Seat {
    worker: Option<Worker>,
}

impl Seat {
    /// Replays a case in the seat's worker, or in a fresh one where the case wants that.
    /// Gives what was seen and, in words, how the process stood afterwards.
    pub(super) fn replay(
        &mut self,
        case: &Case,
        request: &Request,
        launch: &Launch,
    ) -> Result<(Observation, String), RunError> {
        let limit = Duration::from_secs(case.timeout_s);
        let started = Instant::now();
        if case.isolation == Isolation::Fresh {
            let mut worker = Worker::start(launch, &request.logs)?;
            let (observation, lives) = worker.replay(request, limit, started);
            return Ok(if lives { leave(worker, observation, started) } else { died(observation) });
        }
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start(launch, &request.logs)?,
        };
        let (observation, lives) = worker.replay(request, limit, started);
        if !lives {
            return Ok(died(observation));
        }
        let exit = format!("process {} goes on to other cases", worker.id());
        self.worker = Some(worker);
        Ok((observation, exit))
    }

    /// Ends the seat's worker, if there is one; says how it died where it did not end cleanly.
    pub fn close(&mut self) -> Result<(), String> {
        self.worker.take().map_or(Ok(()), Worker::finish)
    }
}

/// A fresh worker must also end cleanly: a crash while the library is torn down is a crash.
fn leave(worker: Worker, mut observation: Observation, started: Instant) -> (Observation, String) {
    match worker.finish() {
        Ok(()) => {
            observation.elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
            (observation, "exit status 0".to_owned())
        }
        Err(how) => {
            if observation.end == End::Finished {
                observation.stage = Stage::Exit;
                observation.end = End::Died { how: how.clone(), out_of_memory: false };
            }
            (observation, how)
        }
    }
}

fn died(observation: Observation) -> (Observation, String) {
    let exit = match &observation.end {
        End::Died { how, .. } => how.clone(),
        End::TimedOut { by, .. } => format!("ended by {by} at the time limit"),
        End::NotStarted { .. } | End::Finished | End::Refused { .. } => "the worker is gone".to_owned(),
    };
    (observation, exit)
}
