//! Sums that neither overflow nor vanish: a number beside a power of two.

/// `mantissa * 2^exponent`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scaled {
    pub mantissa: f64,
    pub exponent: i32,
}

impl Scaled {
    /// Adds another. What is too small beside the larger one to be seen in it is lost, as in any sum of floats.
    pub fn add(&mut self, other: Self) {
        if other.mantissa == 0.0 {
            return;
        }
        if self.mantissa == 0.0 {
            *self = other;
        } else if self.exponent == other.exponent {
            self.mantissa += other.mantissa;
        } else {
            let exponent = self.exponent.max(other.exponent);
            self.mantissa = times_power_of_two(self.mantissa, self.exponent - exponent)
                + times_power_of_two(other.mantissa, other.exponent - exponent);
            self.exponent = exponent;
        }
    }

    /// The same number with its exponent taken out of the mantissa.
    pub fn normal(self) -> Self {
        if self.mantissa == 0.0 {
            return self;
        }
        let exponent = exponent_of(self.mantissa);
        Self { mantissa: times_power_of_two(self.mantissa, -exponent), exponent: self.exponent + exponent }
    }

    /// The number itself, divided by `n`: `inf` or 0 only where the quotient is beyond f64.
    pub fn over(self, n: f64) -> f64 {
        times_power_of_two(self.mantissa / n, self.exponent)
    }
}

/// The cosine of two vectors from their products: `dot / sqrt(gg * rr)`.
pub(super) fn cosine(dot: Scaled, gg: Scaled, rr: Scaled) -> f64 {
    match (gg.mantissa == 0.0, rr.mantissa == 0.0) {
        (true, true) => 1.0,
        (true, false) | (false, true) => 0.0,
        // Exponents of squares are even.
        (false, false) => times_power_of_two(
            dot.mantissa / gg.mantissa.sqrt() / rr.mantissa.sqrt(),
            dot.exponent - i32::midpoint(gg.exponent, rr.exponent),
        )
        .clamp(-1.0, 1.0),
    }
}

/// The exponent of `x`, finite: without it a magnitude of 1 to 2 is left, of a subnormal one of at least 2^-51.
pub(super) fn exponent_of(x: f64) -> i32 {
    ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

/// `x * 2^exponent`, rounded once unless the result is subnormal.
pub(super) fn times_power_of_two(mut x: f64, exponent: i32) -> f64 {
    let mut left = exponent;
    while left != 0 && x != 0.0 && x.is_finite() {
        let step = left.clamp(-1000, 1000);
        x *= power_of_two(step);
        left -= step;
    }
    x
}

/// For exponents of normal numbers.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}
