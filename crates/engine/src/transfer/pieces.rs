//! Bytes of one stretch of a block in the order they arrived: appended, never copied, sliced for any range.

use bytes::Bytes;

/// Append-only pieces that together are one stretch of bytes.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    parts: Vec<Bytes>,
    /// Where each part ends, counted from the start of the stretch.
    ends: Vec<u32>,
}

impl Pieces {
    pub(crate) fn push(&mut self, part: Bytes) {
        if part.is_empty() {
            return;
        }
        self.ends.push(self.length() + part.len() as u32);
        self.parts.push(part);
    }

    pub(crate) fn length(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Appends the bytes `from..to` of the stretch to `out`; they must have arrived.
    pub(crate) fn slice(&self, from: u32, to: u32, out: &mut Vec<Bytes>) {
        let first = self.ends.partition_point(|end| *end <= from);
        for (part, end) in self.parts[first..].iter().zip(&self.ends[first..]) {
            let start = end - part.len() as u32;
            if start >= to {
                break;
            }
            let within = (from.max(start) - start) as usize..(to.min(*end) - start) as usize;
            out.push(part.slice(within));
        }
    }

    pub(crate) fn parts(&self) -> &[Bytes] {
        &self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_slice_equals_the_slice_of_the_whole(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..20),
            cut in any::<(u32, u32)>(),
        ) {
            let whole: Vec<u8> = parts.concat();
            let mut pieces = Pieces::default();
            parts.into_iter().for_each(|part| pieces.push(Bytes::from(part)));
            let to = cut.0 % (whole.len() as u32 + 1);
            let from = if to == 0 { 0 } else { cut.1 % to };
            let mut out = Vec::new();
            pieces.slice(from, to, &mut out);
            prop_assert_eq!(out.concat(), &whole[from as usize..to as usize]);
            prop_assert_eq!(pieces.length() as usize, whole.len());
        }
    }
}
