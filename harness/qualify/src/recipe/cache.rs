//! Compiled models are never reused: what one stack compiled, with its settings, must not be what another is judged by.
//!
//! So no recipe may name a place for them, and no worker inherits one. The names are those of the providers that have such
//! caches (seen in the libraries of `MIGraphX` 1.23.2, `OpenVINO` 1.24.1 and `WebGPU` 1.27.0, and in the documentation of
//! `TensorRT`'s).

use super::Recipe;

/// Provider options and session entries that keep or load a compiled model.
const OPTIONS: [&str; 10] = [
    "cache_dir",
    "ep.context_enable",
    "ep.context_file_path",
    "migraphx_load_compiled_model",
    "migraphx_model_cache_dir",
    "migraphx_save_compiled_model",
    "trt_dump_ep_context_model",
    "trt_engine_cache_enable",
    "trt_engine_cache_path",
    "trt_timing_cache_enable",
];

/// Variables that do; a last `*` stands for any rest.
pub(super) const VARIABLES: [&str; 7] = [
    "ORT_MIGRAPHX_CACHE_PATH",
    "ORT_MIGRAPHX_LOAD_COMPILE*",
    "ORT_MIGRAPHX_MODEL_CACHE_PATH",
    "ORT_MIGRAPHX_SAVE_COMPILE*",
    "ORT_TENSORRT_CACHE*",
    "ORT_TENSORRT_ENGINE_CACHE*",
    "ORT_TENSORRT_TIMING_CACHE*",
];

/// Is `name` the pattern, or does it begin as a pattern with a last `*` does?
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |beginning| name.starts_with(beginning))
}

impl Recipe {
    /// Refuses a recipe that would keep or load compiled models. Gives field and problem.
    pub(super) fn check_caches(&self) -> Result<(), (String, String)> {
        let options =
            self.provider.iter().flat_map(|p| &p.options).map(|(name, value)| ("provider.options", name, value));
        let session = self.session.iter().map(|(name, value)| ("session", name, value));
        let keeps = |name: &str, value: &str| {
            OPTIONS.iter().any(|o| o.eq_ignore_ascii_case(name)) || value.to_ascii_lowercase().contains("cache_dir")
        };
        let option = options.chain(session).find(|(_, name, value)| keeps(name, value));
        let set = self.env.keys().chain(self.append.keys());
        let variable = set.map(|name| ("env", name)).find(|(_, name)| VARIABLES.iter().any(|v| fits(v, name)));
        match option.map(|(table, name, _)| (table, name)).or(variable) {
            None => Ok(()),
            Some((table, name)) => Err((
                format!("{table}.{name}"),
                "keeps or loads compiled models, and those are never reused: every worker compiles its own".to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_recipe_names_a_place_for_compiled_models() {
        let openvino = include_str!("../../../../env-recipes/openvino.toml");
        let told = |from: &str, to: &str| {
            assert!(openvino.contains(from), "the recipe no longer holds {from}");
            let recipe: Recipe = toml::from_str(&openvino.replace(from, to)).unwrap();
            recipe.check_caches().map_or_else(|(field, _)| field, |()| "accepted".to_owned())
        };
        assert_eq!(told("device_type", "device_type"), "accepted");
        assert_eq!(told("device_type = \"CPU\"", "cache_dir = \"/x\""), "provider.options.cache_dir");
        let nested = "load_config = '{\"CPU\": {\"CACHE_DIR\": \"/x\"}}'";
        assert_eq!(told("device_type = \"CPU\"", nested), "provider.options.load_config");
        assert_eq!(told("[host]", "[session]\n\"ep.context_enable\" = \"1\"\n[host]"), "session.ep.context_enable");
        let variable = "[env]\nORT_MIGRAPHX_SAVE_COMPILED_MODEL = \"1\"\n[host]";
        assert_eq!(told("[host]", variable), "env.ORT_MIGRAPHX_SAVE_COMPILED_MODEL");
    }
}
