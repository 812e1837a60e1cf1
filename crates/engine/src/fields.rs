//! Reads little-endian fields off the front of some bytes: what was written to disk, or came from another process.

/// What is left to read. Each method answers `None` when that does not suffice, and then takes nothing.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Fields(bytes)
    }

    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// A byte string with its length in two bytes.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let length = ahead.u16()?;
        let string = ahead.take(usize::from(length))?;
        *self = ahead;
        Some(string)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Bytes that are left.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_their_order_and_a_field_that_is_cut_takes_nothing() {
        let mut fields = Fields::new(&[1, 2, 0, b'a', b'b', 9, 8]);
        assert_eq!(fields.u8(), Some(1));
        assert_eq!(fields.string(), Some(&b"ab"[..]));
        assert_eq!((fields.u32(), fields.u64(), fields.i64(), fields.take(3)), (None, None, None, None));
        assert_eq!(fields.string(), None, "its length is there, and it is not");
        assert_eq!((fields.len(), fields.u16()), (2, Some(0x0809)));
        assert!(fields.is_empty() && fields.rest().is_empty());
    }
}
