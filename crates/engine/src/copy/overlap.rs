//! The overlap of two places, which are the same or one in the other: a copy between them would feed on itself.

/// `first` and `second` are canonical names: `scheme://bucket/prefix@endpoint` or `local:///folder`.
pub fn overlaps(first: &str, second: &str) -> bool {
    let ((scheme, path, endpoint), (other_scheme, other_path, other_endpoint)) = (parts(first), parts(second));
    scheme == other_scheme && endpoint == other_endpoint && (holds(path, other_path) || holds(other_path, path))
}

fn parts(name: &str) -> (&str, &str, &str) {
    let (scheme, rest) = name.split_once("://").unwrap_or(("", name));
    // A folder's name may hold an @; a bucket's endpoint stands after the last one.
    let (path, endpoint) = if scheme == "local" { (rest, "") } else { rest.rsplit_once('@').unwrap_or((rest, "")) };
    (scheme, path.trim_matches('/'), endpoint)
}

fn holds(outer: &str, inner: &str) -> bool {
    outer.is_empty() || inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_overlaps_with_itself_and_with_what_is_above_and_below() {
        for (first, second, expected) in [
            ("s3://b/a@h", "s3://b/a@h", true),
            ("s3://b/a@h", "s3://b/a/x@h", true),
            ("s3://b/a/x@h", "s3://b/a@h", true),
            ("s3://b/@h", "s3://b/a@h", true),
            ("s3://b/a@h", "s3://b/ab@h", false),
            ("s3://b/a@h", "s3://c/a@h", false),
            ("s3://b/a@h", "s3://b/a@i", false),
            ("local:///a/b", "local:///a", true),
            ("local:///", "local:///a", true),
            ("local:///a@b", "local:///a", false),
            ("local:///a", "s3://a/@h", false),
        ] {
            assert_eq!(overlaps(first, second), expected, "{first} {second}");
        }
    }
}
