//! Integers of any size, in the notation of the JSON.

/// An integer: its sign and magnitude.
///
/// The magnitude is in limbs of 64 bits, the lowest first, without zero limbs at the top.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Number {
    negative: bool,
    limbs: Vec<u64>,
}

impl Number {
    /// Parses `0x1f`, `1f`, or either with a `-` in front.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let limb =
            |chunk: &[u8]| std::str::from_utf8(chunk).ok().and_then(|t| u64::from_str_radix(t, 16).ok());
        let limbs = digits.rchunks(16).map(limb).collect::<Option<Vec<_>>>()?;
        Some(Self::new(negative, limbs))
    }

    fn new(negative: bool, mut limbs: Vec<u64>) -> Self {
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        Self { negative: negative && !limbs.is_empty(), limbs }
    }

    /// Returns 2^`bits` - 1.
    pub(crate) fn mask(bits: u32) -> Self {
        let mut limbs = vec![u64::MAX; (bits / 64) as usize];
        limbs.push((1 << (bits % 64)) - 1);
        Self::new(false, limbs)
    }

    /// Returns 2^`bit`.
    pub(crate) fn power(bit: u32) -> Self {
        let mut limbs = vec![0; (bit / 64) as usize];
        limbs.push(1 << (bit % 64));
        Self::new(false, limbs)
    }

    /// Returns a number with the value `lane` in each of `lanes` lanes of 32 bits.
    pub(crate) fn in_lanes(lane: u32, lanes: u32) -> Self {
        let two = u64::from(lane) << 32 | u64::from(lane);
        let mut limbs = vec![two; (lanes / 2) as usize];
        limbs.extend((lanes % 2 == 1).then_some(u64::from(lane)));
        Self::new(false, limbs)
    }

    /// Returns the number with the other sign.
    pub(crate) fn negated(self) -> Self {
        Self::new(!self.negative, self.limbs)
    }

    /// Returns true if the number is below zero.
    pub(crate) fn is_negative(&self) -> bool {
        self.negative
    }

    /// Returns the number of bits of the magnitude; 0 for 0.
    pub(crate) fn bits(&self) -> u32 {
        let top = self.limbs.last().map_or(0, |limb| 64 - limb.leading_zeros());
        (self.limbs.len().saturating_sub(1) as u32).saturating_mul(64).saturating_add(top)
    }

    /// Returns the `index`-th limb in two's complement of unlimited length.
    pub(crate) fn limb(&self, index: usize) -> u64 {
        let plain = |i: usize| self.limbs.get(i).copied().unwrap_or(0);
        if !self.negative {
            return plain(index);
        }
        let borrow_stops_below = self.limbs.iter().take(index).any(|limb| *limb != 0);
        if borrow_stops_below { !plain(index) } else { plain(index).wrapping_neg() }
    }

    /// Returns `bits` bits of the magnitude, from bit `low` on.
    pub(crate) fn slice(&self, low: u32, bits: u32) -> Self {
        let (first, shift) = ((low / 64) as usize, low % 64);
        let plain = |i: usize| self.limbs.get(i).copied().unwrap_or(0);
        let limb = |i: usize| {
            let above = if shift == 0 { 0 } else { plain(first + i + 1) << (64 - shift) };
            let left = bits.saturating_sub(i as u32 * 64);
            let mask = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
            (plain(first + i) >> shift | above) & mask
        };
        Self::new(false, (0..bits.div_ceil(64) as usize).map(limb).collect())
    }

    /// Returns the bitwise AND of two magnitudes.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self::new(false, self.limbs.iter().zip(&other.limbs).map(|(a, b)| a & b).collect())
    }

    /// Returns the value if it fits into 64 bits without a sign.
    pub(crate) fn to_u64(&self) -> Option<u64> {
        (!self.negative && self.limbs.len() <= 1).then(|| self.limb(0))
    }

    /// Returns n if the number is 2^n - 1 with n > 0.
    pub(crate) fn mask_bits(&self) -> Option<u32> {
        let bits = self.bits();
        (bits > 0 && *self == Self::mask(bits)).then_some(bits)
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::new(false, vec![value])
    }
}

#[cfg(test)]
mod tests {
    use super::Number;

    #[test]
    fn hexadecimal_text_is_read_with_its_sign() {
        assert_eq!(Number::parse("0x00ff"), Some(Number::from(255)));
        assert_eq!(Number::parse("-0x1").map(|n| n.limb(7)), Some(u64::MAX));
        assert_eq!(Number::parse("-0x0"), Some(Number::default()));
        let wide = Number::parse("0x10000000000000000").unwrap();
        assert_eq!((wide.limb(0), wide.limb(1), wide.limb(2), wide.bits()), (0, 1, 0, 65));
        let below = wide.negated();
        assert_eq!((below.limb(0), below.limb(1), below.limb(2)), (0, u64::MAX, u64::MAX));
        for bad in ["", "0x", "0xg", "- 1", "1.0"] {
            assert_eq!(Number::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn slices_cross_limbs() {
        let number = Number::parse("0x123456789abcdef00fedcba987654321").unwrap();
        assert_eq!(number.slice(60, 8), Number::from(0x00));
        assert_eq!(number.slice(56, 20), Number::from(0xef00f));
        assert_eq!(number.slice(4, 124), Number::parse("0x123456789abcdef00fedcba98765432").unwrap());
        assert_eq!(number.slice(200, 64), Number::default());
        assert_eq!(number.and(&Number::from(0xff00)), Number::from(0x4300));
    }

    #[test]
    fn masks_are_recognised() {
        for bits in [1, 63, 64, 65, 2048] {
            assert_eq!(Number::mask(bits).mask_bits(), Some(bits));
            assert_eq!(Number::mask(bits).bits(), bits);
            assert_eq!(Number::power(bits).mask_bits(), None);
        }
        assert_eq!(Number::default().mask_bits(), None);
    }
}
