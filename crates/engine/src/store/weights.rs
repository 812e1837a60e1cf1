//! A list of weights from which a position is drawn with the probability of its weight, in logarithmic time.

/// Fenwick tree: node `i` (from 1) holds the sum of the `i & -i` weights that end at position `i - 1`.
#[derive(Debug, Default)]
pub struct Weights {
    sums: Vec<u32>,
    total: u32,
}

impl Weights {
    /// The sum of all weights.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Adds a position of weight 0 at the end.
    pub fn push(&mut self) {
        let node = self.sums.len() + 1;
        let first = node - lowest_bit(node);
        let mut sum = 0;
        let mut child = node - 1;
        while child > first {
            sum += self.sums[child - 1];
            child -= lowest_bit(child);
        }
        if self.sums.len() == self.sums.capacity() {
            self.sums.reserve_exact(self.sums.len() / 8 + 4);
        }
        self.sums.push(sum);
    }

    /// Adds `change` to the weight at `position`.
    pub fn add(&mut self, position: u32, change: i32) {
        let mut node = position as usize + 1;
        while node <= self.sums.len() {
            self.sums[node - 1] = self.sums[node - 1].wrapping_add_signed(change);
            node += lowest_bit(node);
        }
        self.total = self.total.wrapping_add_signed(change);
    }

    /// The position that weight number `rank` (below `total`) belongs to, and its rank there.
    pub fn find(&self, rank: u32) -> (u32, u32) {
        let (mut node, mut rest) = (0, rank);
        let mut step = (self.sums.len() + 1).next_power_of_two() >> 1;
        while step > 0 {
            if let Some(sum) = self.sums.get(node + step - 1)
                && *sum <= rest
            {
                node += step;
                rest -= sum;
            }
            step >>= 1;
        }
        (node as u32, rest)
    }
}

fn lowest_bit(node: usize) -> usize {
    node & node.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_rank_belongs_to_its_position(weights in prop::collection::vec(0i32..5, 1..60), late in 0i32..5) {
            let mut tree = Weights::default();
            for (position, weight) in weights.iter().enumerate() {
                tree.push();
                tree.add(position as u32, *weight);
            }
            tree.add(0, late);
            let mut plain = weights.clone();
            plain[0] += late;
            let expected: Vec<(u32, u32)> = plain
                .iter()
                .enumerate()
                .flat_map(|(position, weight)| (0..*weight as u32).map(move |rank| (position as u32, rank)))
                .collect();
            prop_assert_eq!(tree.total() as usize, expected.len());
            let found: Vec<_> = (0..tree.total()).map(|rank| tree.find(rank)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
