//! A figure that survives JSON: NaN and infinities are written as the strings `"NaN"`, `"inf"`, `"-inf"`, never as null.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// An `f64` that may be NaN or infinite and stays so through JSON.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default)]
pub struct Figure(pub f64);

impl fmt::Display for Figure {
    /// Three significant digits in scientific notation (`3.8e-6` style), or `NaN`, `inf`, `-inf`, `0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0.0 {
            f.write_str("0")
        } else if self.0.is_finite() {
            write!(f, "{:.2e}", self.0)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() { s.serialize_f64(self.0) } else { s.serialize_str(&self.0.to_string()) }
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Figure;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, \"NaN\", \"inf\" or \"-inf\"")
            }
            fn visit_f64<E>(self, v: f64) -> Result<Figure, E> {
                Ok(Figure(v))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Figure, E> {
                Ok(Figure(v as f64))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Figure, E> {
                Ok(Figure(v as f64))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Figure, E> {
                match v {
                    "NaN" => Ok(Figure(f64::NAN)),
                    "inf" => Ok(Figure(f64::INFINITY)),
                    "-inf" => Ok(Figure(f64::NEG_INFINITY)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(v), &self)),
                }
            }
        }
        d.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_finite_figures_survive_json_and_null_is_refused() {
        for v in [1.5, 0.0, -2e300, f64::INFINITY, f64::NEG_INFINITY] {
            let text = serde_json::to_string(&Figure(v)).unwrap();
            assert_eq!(serde_json::from_str::<Figure>(&text).unwrap(), Figure(v), "{text}");
        }
        assert_eq!(serde_json::to_string(&Figure(f64::NAN)).unwrap(), "\"NaN\"");
        assert!(serde_json::from_str::<Figure>("\"NaN\"").unwrap().0.is_nan());
        assert!(serde_json::from_str::<Figure>("null").is_err());
    }
}
