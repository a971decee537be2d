//! The `ort-qualify` command: parse, run, say what went wrong in one paragraph.

fn main() -> std::process::ExitCode {
    ort_qualify::cli::main()
}
