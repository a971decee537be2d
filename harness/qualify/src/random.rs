//! Random numbers that are the same for ever on every machine.

/// The generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(pub u64);

impl SplitMix64 {
    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of mean 0 and variance 1, bell-shaped within 2 sqrt(3): the sum of four uniform ones.
    pub fn bell(&mut self) -> f64 {
        let draw = self.next();
        let sum: i64 = (0..4).map(|lane| (draw >> (16 * lane) & 0xffff) as i64).sum();
        (sum - 2 * 0xffff) as f64 / 65536.0 * 1.732_050_807_568_877_2
    }
}
