//! Many cases at once: as many seats as asked for, each with a thread, taking cases from one queue.

use super::{CaseResult, Qualification, RunError, Seat};
use crate::case::Case;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// A shared worker that did not end cleanly after its last case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late(pub String);

/// Called with each result as it comes, in no particular order.
pub type Progress<'a> = &'a mut dyn FnMut(&CaseResult);

/// Qualifies all cases in `seats` workers at a time; the results come back in the cases' order. Whoever wants the fetching
/// to be over before asks for [`Qualification::prefix`]; else the first case that runs waits for it.
pub fn run_all(
    qualification: &Qualification,
    cases: &[Case],
    seats: usize,
    progress: Progress<'_>,
) -> Result<(Vec<CaseResult>, Vec<Late>), RunError> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let (sender, results) = channel();
    let mut done: Vec<Option<CaseResult>> = vec![None; cases.len()];
    let mut failed = None;
    let mut late = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..seats.clamp(1, cases.len().max(1)))
            .map(|_| {
                let sender = sender.clone();
                let (next, stop) = (&next, &stop);
                scope.spawn(move || {
                    let mut seat = Seat::default();
                    while !stop.load(Ordering::Relaxed) {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(case) = cases.get(index) else { break };
                        if sender.send((index, qualification.qualify(case, &mut seat))).is_err() {
                            break;
                        }
                    }
                    seat.close()
                })
            })
            .collect();
        drop(sender);
        for (index, result) in results {
            match result {
                Ok(result) => {
                    progress(&result);
                    done[index] = Some(result);
                }
                Err(e) => {
                    stop.store(true, Ordering::Relaxed);
                    failed.get_or_insert(e);
                }
            }
        }
        for thread in threads {
            // One that panicked leaves the case that it had without a result, which is found below.
            if let Ok(Err(how)) = thread.join() {
                late.push(Late(how));
            }
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    // A case without a result must never look like a case that is fine.
    if let Some((case, _)) = cases.iter().zip(&done).find(|(_, result)| result.is_none()) {
        return Err(RunError::Lost { case: case.name.clone() });
    }
    Ok((done.into_iter().flatten().collect(), late))
}
