//! `ort-qualify bundle`: what is in a bundle, whether it is whole, and bundles from what others left.

use super::{Failure, print};
use crate::bundle::sdpa::{self, MaskInput, Precision, SdpaSpec};
use crate::bundle::{self, Arrays, Bundle, BundleError, ImportOptions, OpenOptions};
use camino::Utf8PathBuf;
use clap::{Args, Subcommand};
use std::process::ExitCode;

/// What to do with bundles.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Hash every file and hold arrays and external data against the manifest and the model.
    Verify {
        /// The bundle, or a folder of another known layout.
        dir: Utf8PathBuf,
        /// What is known of a folder without a manifest.
        #[command(flatten)]
        source: SourceArgs,
    },
    /// What a bundle holds; nothing is hashed.
    Show {
        /// The bundle, or a folder of another known layout.
        dir: Utf8PathBuf,
        /// What is known of a folder without a manifest.
        #[command(flatten)]
        source: SourceArgs,
    },
    /// Make a bundle with this project's own graphs, inputs and references.
    Export {
        /// What to make.
        #[command(subcommand)]
        what: Export,
    },
    /// Make a bundle from an ONNX backend test directory, from a folder with inputs.npz and outputs*.npz, or from a model
    /// with two .npz files.
    Import {
        /// The folder, or the model in it.
        source: Utf8PathBuf,
        /// The bundle's folder, which must not be there yet.
        dest: Utf8PathBuf,
        /// What is known of the source.
        #[command(flatten)]
        options: SourceArgs,
        /// Inputs, as arrays named `BATCH_TENSOR` (or `TENSOR`, for a single case).
        #[arg(long, value_name = "F.npz", requires = "outputs")]
        inputs: Option<Utf8PathBuf>,
        /// Reference outputs, named likewise.
        #[arg(long, value_name = "F.npz", requires = "inputs")]
        outputs: Option<Utf8PathBuf>,
    },
}

/// What can be made.
#[derive(Debug, Subcommand)]
pub enum Export {
    /// Scaled-dot-product attention, decomposed; four mask patterns where there is a mask, an all-masked event among them.
    Sdpa {
        /// The bundle's folder, which must not be there yet; its last part is the bundle's name.
        dest: Utf8PathBuf,
        /// Events.
        #[arg(long, default_value_t = 2, value_parser = extent)]
        batch: usize,
        /// Heads.
        #[arg(long, default_value_t = 2, value_parser = extent)]
        heads: usize,
        /// Elements of an event.
        #[arg(long, default_value_t = 32, value_parser = extent)]
        sequence: usize,
        /// Features of a head.
        #[arg(long, default_value_t = 16, value_parser = extent)]
        head_dim: usize,
        /// Float type of every tensor.
        #[arg(long, default_value = "fp32")]
        precision: Precision,
        /// The key-padding mask.
        #[arg(long, default_value = "none")]
        mask: MaskInput,
        /// Make query, key and value of one input by projections with weights, and the output by one more.
        #[arg(long)]
        projections: bool,
    },
}

/// An extent of a generated graph: bounded, so that a slip of the keyboard does not ask for all memory.
fn extent(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=65536) => Ok(n),
        _ => Err("must be a whole number from 1 to 65536".to_owned()),
    }
}

/// What is known of a folder without a manifest.
#[derive(Debug, Default, Args)]
pub struct SourceArgs {
    /// The model's file, where there are several.
    #[arg(long, value_name = "FILE")]
    model: Option<Utf8PathBuf>,
    /// A tensor's name in the arrays and in the model, as `X=Xfeat_normed`; inputs or outputs.
    #[arg(long, value_name = "ARRAYS=MODEL", value_parser = pair)]
    input_map: Vec<(String, String)>,
    /// The bundle's name, instead of the folder's.
    #[arg(long)]
    name: Option<String>,
}

impl SourceArgs {
    fn to_options(&self) -> OpenOptions {
        OpenOptions {
            model: self.model.clone(),
            tensor_names: self.input_map.iter().cloned().collect(),
            name: self.name.clone(),
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok((from.to_owned(), to.to_owned())),
        _ => Err("must be NAME_IN_ARRAYS=NAME_IN_MODEL".to_owned()),
    }
}

/// Runs a `bundle` command.
pub fn run(command: &Command, json: bool) -> Result<ExitCode, Failure> {
    match command {
        Command::Verify { dir, source } => verify(&Bundle::open_with(dir, &source.to_options())?, json),
        Command::Show { dir, source } => show(&Bundle::open_with(dir, &source.to_options())?, json),
        Command::Export {
            what: Export::Sdpa { dest, batch, heads, sequence, head_dim, precision, mask, projections },
        } => {
            let (batch, heads, sequence, head_dim) = (*batch, *heads, *sequence, *head_dim);
            let (precision, mask, projections) = (*precision, *mask, *projections);
            let spec = SdpaSpec { batch, heads, sequence, head_dim, precision, mask, projections };
            spec.check().map_err(|problem| Failure::request(anyhow::anyhow!(problem)))?;
            let name = dest.file_name().ok_or_else(|| Failure::request(anyhow::anyhow!("{dest} names no folder")))?;
            report(&bundle::write(dest, &sdpa::parts(&spec, name))?, json)
        }
        Command::Import { source, dest, options, inputs, outputs } => {
            let arrays = inputs.clone().zip(outputs.clone()).map(|(inputs, outputs)| Arrays { inputs, outputs });
            report(&bundle::import(source, dest, &ImportOptions { open: options.to_options(), arrays })?, json)
        }
    }
}

fn verify(bundle: &Bundle, json: bool) -> Result<ExitCode, Failure> {
    let facts = bundle.verify()?;
    if json {
        print::json(&serde_json::json!({ "bundle": bundle.name, "layout": bundle.layout, "facts": facts }))?;
    } else {
        let mut table = print::table(&["about", "holds"]);
        for fact in &facts {
            table.add_row([&fact.subject, &fact.finding]);
        }
        print::line(format!("{table}\n{}: whole, and it fits its model", bundle.dir))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(bundle: &Bundle, json: bool) -> Result<ExitCode, Failure> {
    if json {
        print::json(bundle)?;
        return Ok(ExitCode::SUCCESS);
    }
    print::line(format!(
        "{}: {}",
        bundle.name,
        if bundle.description.is_empty() { "(no description)" } else { &bundle.description }
    ))?;
    print::line(format!("model {}", bundle.model))?;
    if let Some(mask) = &bundle.mask {
        print::line(format!("rows are valid where input `{}` is not zero", mask.input))?;
    }
    for output in &bundle.outputs {
        let axes = output.mask_axes.as_ref().map_or_else(String::new, |a| format!(", mask on axes {a:?}"));
        let limits = output.limits.as_ref().map_or_else(String::new, |l| format!(", limits {l}"));
        print::line(format!("output `{}`{axes}{limits}", output.name))?;
    }
    let mut table = print::table(&["case", "inputs", "outputs", "baselines", "probes"]);
    for case in &bundle.cases {
        let names = |names: &mut dyn Iterator<Item = &String>| names.cloned().collect::<Vec<_>>().join(", ");
        table.add_row([
            case.name.clone(),
            names(&mut case.inputs.iter().map(|i| &i.name)),
            names(&mut case.outputs.iter().map(|o| &o.name)),
            names(&mut case.outputs.iter().filter(|o| o.baseline.is_some()).map(|o| &o.name)),
            names(&mut case.probes.iter().map(|p| &p.name)),
        ]);
    }
    print::line(table)?;
    Ok(ExitCode::SUCCESS)
}

fn report(bundle: &Bundle, json: bool) -> Result<ExitCode, Failure> {
    if json {
        print::json(bundle)?;
    } else {
        print::line(format!("{}: {} cases, {} files, verified", bundle.dir, bundle.cases.len(), bundle.files.len()))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl From<BundleError> for Failure {
    fn from(error: BundleError) -> Self {
        if error.is_environment() { Self::environment(error) } else { Self::request(error) }
    }
}
