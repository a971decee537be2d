//! Bundles that are there: the repository's own, and the models' folders where this machine has them.

use super::{content, folder};
use camino::{Utf8Path, Utf8PathBuf};
use ort_qualify::bundle::sdpa::{self, MaskInput, Precision, SdpaSpec};
use ort_qualify::bundle::{self, ArrayRef, Bundle, OpenOptions};

/// `golden/bundles/sdpa_*`: made by `bundle export sdpa` with these words and the default extents.
#[test]
fn the_committed_attention_bundles_are_what_their_builder_makes_to_the_byte() {
    let golden = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/bundles");
    let (_keep, dir) = folder();
    let made = [
        ("sdpa_fp32", Precision::Fp32, MaskInput::None, false),
        ("sdpa_fp16", Precision::Fp16, MaskInput::None, false),
        ("sdpa_fp32_masked", Precision::Fp32, MaskInput::Bool, false),
        ("sdpa_fp16_masked", Precision::Fp16, MaskInput::Float, false),
        ("sdpa_fp32_projections", Precision::Fp32, MaskInput::None, true),
    ];
    for (name, precision, mask, projections) in made {
        let spec = SdpaSpec { batch: 2, heads: 2, sequence: 32, head_dim: 16, precision, mask, projections };
        bundle::write(&dir.join(name), &sdpa::parts(&spec, name)).unwrap();
        let files = |root: &Utf8Path| -> Vec<(Utf8PathBuf, Vec<u8>)> {
            let found = content(&root.join(name)).into_iter();
            found.map(|(path, bytes)| (path.file_name().unwrap().into(), bytes)).collect()
        };
        assert!(files(&dir) == files(&golden), "{name} is not what its builder makes: export it anew");
    }
    assert_eq!(golden.read_dir_utf8().unwrap().count(), made.len());
}

/// The folders of real bundles, if they are on this machine.
fn real_bundles() -> Option<Utf8PathBuf> {
    let named = std::env::var("ORT_QUALIFY_BUNDLES").map(Utf8PathBuf::from);
    let beside = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/mlpf");
    [named.unwrap_or_default(), beside].into_iter().find(|d| d.is_dir())
}

#[test]
fn the_real_model_folders_open_and_fit_their_models() {
    let Some(dir) = real_bundles() else {
        println!("skipped: no folder in ORT_QUALIFY_BUNDLES and none beside the repository");
        return;
    };
    for name in ["attention_tiny", "attention_cms", "heptv2_tiny", "heptv2_cms"] {
        let mut bundle = Bundle::open(&dir.join(name)).unwrap();
        let names: Vec<&str> = bundle.cases.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["plain", "padded", "tied", "allmasked", "holes"], "{name}");
        assert_eq!(bundle.mask.as_ref().unwrap().input, "mask", "{name}");
        let facts = bundle.verify().unwrap();
        assert_eq!(facts.iter().filter(|f| f.finding.contains("mask")).count(), 21, "{name}: {facts:?}");
        if name.starts_with("heptv2") {
            let options = OpenOptions { model: Some("model_repaired.onnx".into()), ..OpenOptions::default() };
            Bundle::open_with(&dir.join(name), &options).unwrap().verify().unwrap();
            bundle.add_probe("plain", "absent", ArrayRef::named("hash_trace.npz", "plain_L0_positions")).unwrap();
            let e = bundle.verify().unwrap_err().to_string();
            assert!(e.contains("probe `absent`: no node of the main graph"), "{e}");
        }
    }
}
