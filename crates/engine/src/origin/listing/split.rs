//! Where to cut the rest of a key space so that several requests can list it at the same time.
//!
//! Pure: it sees one page's first and last key and an upper bound, and gives keys (which need not exist) in between. A
//! bad cut costs a request that finds nothing, never a key.

/// At most `count` different cuts in rising order, all after `last` and before `until`.
///
/// Keys vary where the keys of one page vary, or earlier. So cuts are made at each position up to there: after all
/// that shares `last`'s beginning, and spread over the characters of the same class (digits, letters) that follow.
pub(super) fn cuts(first: &str, last: &str, until: Option<&str>, count: usize) -> Vec<String> {
    let last_characters: Vec<char> = last.chars().collect();
    let varying = first.chars().zip(last.chars()).take_while(|(a, b)| a == b).count();
    let levels = (varying + 1).min(last_characters.len());
    let mut found: Vec<String> = Vec::new();
    for level in (0..levels).rev() {
        let start: String = last_characters[..level].iter().collect();
        let followers = followers(last_characters[level]);
        let spread = spread(&followers, per_level(count, levels));
        found.extend(spread.into_iter().map(|next| format!("{start}{next}")));
    }
    found.retain(|cut| cut.as_str() > last && until.is_none_or(|until| cut.as_str() < until));
    found.sort_unstable();
    found.dedup();
    spread(&found, count)
}

fn per_level(count: usize, levels: usize) -> usize {
    (count * 2).div_ceil(levels.max(1)).max(1)
}

/// The characters after `from` that its neighbours in a family of names are likely to have.
fn followers(from: char) -> Vec<char> {
    let end = match from {
        '0'..='9' => '9',
        'a'..='z' => 'z',
        'A'..='Z' => 'Z',
        _ => from,
    };
    let beyond = char::from_u32(end as u32 + 1);
    ((from as u32 + 1)..=(end as u32)).filter_map(char::from_u32).chain(beyond).collect()
}

/// `count` of the values, evenly spread, the last one always among them.
fn spread<T: Clone>(values: &[T], count: usize) -> Vec<T> {
    if values.len() <= count {
        return values.to_vec();
    }
    (1..=count).map(|step| values[step * values.len() / count - 1].clone()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_flat_folder_of_numbers_is_cut_along_the_numbers() {
        let cuts = cuts("img_000000.jpg", "img_000999.jpg", None, 32);
        assert!(cuts.iter().filter(|cut| cut.as_str() > "img_1" && cut.as_str() < "img_:").count() >= 3, "{cuts:?}");
        assert!(cuts.iter().any(|cut| cut.starts_with("img_0")), "{cuts:?}");
    }

    proptest! {
        #[test]
        fn cuts_lie_strictly_between_and_rise(
            mut keys in proptest::collection::vec("[ -~]{0,8}|[0-9]{4}|\\PC{0,4}", 3),
            open in any::<bool>(),
            count in 1usize..40,
        ) {
            keys.sort();
            let until = (!open).then_some(keys[2].as_str());
            let cuts = cuts(&keys[0], &keys[1], until, count);
            prop_assert!(cuts.len() <= count);
            prop_assert!(cuts.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(cuts.iter().all(|cut| *cut > keys[1] && until.is_none_or(|until| cut.as_str() < until)));
        }
    }
}
