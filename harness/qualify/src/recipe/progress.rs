//! What is going on, on stderr: bars on a terminal, else one line for each thing fetched.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

/// Where progress is shown.
#[derive(Clone, Debug)]
pub struct Progress(Shown);

#[derive(Clone, Debug)]
enum Shown {
    Bars(MultiProgress),
    Lines,
    Nothing,
}

impl Progress {
    /// Bars where stderr is a terminal, otherwise a line for each thing that is fetched.
    pub fn to_stderr() -> Self {
        Self(if io::stderr().is_terminal() { Shown::Bars(MultiProgress::new()) } else { Shown::Lines })
    }

    /// Bars among those that the caller already draws.
    pub fn among(bars: MultiProgress) -> Self {
        Self(Shown::Bars(bars))
    }

    /// Nothing at all.
    pub fn silent() -> Self {
        Self(Shown::Nothing)
    }

    /// Something of unknown length has begun: a spinner, or the text as a line.
    pub(super) fn spinner(&self, text: String) -> ProgressBar {
        match &self.0 {
            Shown::Bars(bars) => {
                let bar = bars.add(ProgressBar::new_spinner().with_style(style("{spinner} {msg} ({elapsed})")));
                bar.set_message(text);
                bar.enable_steady_tick(Duration::from_millis(100));
                bar
            }
            Shown::Lines => {
                // A closed stderr is no reason to stop.
                let _ = writeln!(io::stderr(), "{text}");
                ProgressBar::hidden()
            }
            Shown::Nothing => ProgressBar::hidden(),
        }
    }

    /// So many bytes are to be read: a bar, on a terminal only.
    pub(super) fn bytes(&self, text: &'static str, total: u64) -> ProgressBar {
        match &self.0 {
            Shown::Bars(bars) => bars.add(
                ProgressBar::new(total)
                    .with_style(style("{msg} {wide_bar} {binary_bytes}/{binary_total_bytes}"))
                    .with_message(text),
            ),
            Shown::Lines | Shown::Nothing => ProgressBar::hidden(),
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are constants of this file, and a test parses them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::ProgressDrawTarget;

    #[test]
    fn the_templates_parse_and_silence_is_hidden() {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::hidden());
        let drawn = Progress::among(bars);
        assert_eq!(drawn.bytes("hashing", 7).length(), Some(7));
        assert_eq!(drawn.spinner("fetching".into()).message(), "fetching");
        assert!(Progress::silent().bytes("hashing", 7).is_hidden());
    }
}
