//! Chance with a seed: the same seed makes the same choices, on every machine and for ever.

/// A stream of choices. Without a seed it always takes the first: no lag, no surprises.
#[derive(Clone, Debug)]
pub struct Whim {
    state: Option<u64>,
}

impl Whim {
    /// Always the first choice.
    pub const fn none() -> Self {
        Self { state: None }
    }

    /// Choices by a seed.
    pub const fn seeded(seed: u64) -> Self {
        Self { state: Some(seed) }
    }

    /// Whether anything but the first is ever chosen.
    pub const fn is_none(&self) -> bool {
        self.state.is_none()
    }

    /// The next number (the generator is SplitMix64); 0 without a seed.
    pub fn number(&mut self) -> u64 {
        let Some(state) = &mut self.state else { return 0 };
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        match end {
            0 | 1 => 0,
            end => (self.number() % end as u64) as usize,
        }
    }

    /// Yes in `percent` of a hundred cases; without a seed never.
    pub fn yes(&mut self, percent: u64) -> bool {
        self.state.is_some() && self.number() % 100 < percent
    }

    /// One of these, if there is any.
    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.below(choices.len()))
    }
}
