//! The names on an index page, as Apache, nginx, `python -m http.server` and their like write them.
//!
//! A name is a link to something directly below the page's own address. Links elsewhere (parent folder, sort orders,
//! other sites) are no names. Pure: page and address in, names out.

use std::collections::BTreeSet;

use html5gum::{Token, Tokenizer};
use percent_encoding::percent_decode_str;
use url::Url;

/// One linked name, decoded; not always UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub bytes: Vec<u8>,
    pub folder: bool,
    /// As a browser takes it, the link is none of this page's files; but whoever wrote it may have meant one.
    pub unclear: bool,
}

/// What stands before the colon of links that are surely no names.
const SCHEMES: [&str; 16] = [
    "http",
    "https",
    "ftp",
    "file",
    "mailto",
    "tel",
    "sms",
    "javascript",
    "data",
    "blob",
    "about",
    "irc",
    "news",
    "magnet",
    "ws",
    "view-source",
];

/// The names that `html`, the page at `address` (which ends with a slash), links to. Each once, sorted.
pub(super) fn names(html: &[u8], address: &Url) -> Vec<Name> {
    let mut found = BTreeSet::new();
    for token in Tokenizer::new(html) {
        let Ok(token) = token;
        let Token::StartTag(tag) = token else { continue };
        if tag.name.as_slice() != b"a" {
            continue;
        }
        if let Some(link) = tag.attributes.get(&b"href"[..]) {
            found.extend(name(&String::from_utf8_lossy(link), address));
        }
    }
    found.into_iter().collect()
}

fn name(link: &str, address: &Url) -> Option<Name> {
    // A query names another view of the same page (sort orders), not a file: names hold `%3F`.
    let link = link.split('#').next().filter(|link| !link.is_empty() && !link.contains('?'))?;
    let unclear = looks_like_a_name(link);
    // With a folder before it, the colon is a part of the name.
    let target = if unclear { address.join(&format!("./{link}")) } else { address.join(link) }.ok()?;
    if target.origin() != address.origin() {
        return None;
    }
    let below = target.path().strip_prefix(address.path())?;
    let (name, folder) = match below.strip_suffix('/') {
        Some(name) => (name, true),
        None => (below, false),
    };
    let bytes: Vec<u8> = percent_decode_str(name).collect();
    // An encoded slash would reach out of this folder, an empty name is the folder itself.
    if name.contains('/') || bytes.is_empty() || bytes.contains(&b'/') || bytes == b"." || bytes == b".." {
        return None;
    }
    Some(Name { bytes, folder, unclear })
}

/// `run:1.csv`: an address with an unknown scheme, or the name of a file that was not escaped.
fn looks_like_a_name(link: &str) -> bool {
    let Some((scheme, rest)) = link.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme && !rest.starts_with("//") && !SCHEMES.contains(&scheme.to_ascii_lowercase().as_str())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shown(html: &str) -> Vec<String> {
        let address = Url::parse("http://host/data/").unwrap();
        let show =
            |name: Name| format!("{}{}", String::from_utf8_lossy(&name.bytes), if name.folder { "/" } else { "" });
        names(html.as_bytes(), &address).into_iter().map(show).collect()
    }

    #[test]
    fn apache() {
        let html = r#"<table><tr><th><a href="?C=N;O=D">Name</a></th></tr>
            <tr><td><a href="/">Parent Directory</a></td></tr>
            <tr><td><a href="a%20b.txt">a b.txt</a></td><td>1.2K</td></tr>
            <tr><td><a href="train/">train/</a></td></tr></table>"#;
        assert_eq!(shown(html), ["a b.txt", "train/"]);
    }

    #[test]
    fn nginx_and_python() {
        let html = r#"<h1>Index of /data/</h1><pre><a href="../">../</a><a href="x%23y">x#y</a> 01-Jan <a href="%3Fq%25.bin">?q%.bin</a></pre>
            <ul><li><a href="&amp;.txt">&amp;.txt</a></li><li><a href="link@">link@</a></li></ul>"#;
        assert_eq!(shown(html), ["&.txt", "?q%.bin", "link@", "x#y"]);
    }

    #[test]
    fn absolute_links_count_only_below_the_page() {
        let html = r##"<a href="/data/in">in</a><a href="http://host/data/also">also</a><a href="http://other/data/x">x</a>
            <a href="/data/deep/er">deeper</a><a href="/elsewhere">e</a><a href="..%2fpasswd">p</a><a href="%2e%2e">up</a>
            <a href="mailto:me">me</a><a href="">self</a><a href="#top">top</a><a>none</a>"##;
        assert_eq!(shown(html), ["also", "in"]);
    }

    #[test]
    fn a_colon_that_was_not_escaped_may_be_one_of_a_name() {
        let html = r#"<a href="run:1.csv">run:1.csv</a><a href="./run:2.csv">2</a><a href="run%3A3.csv">3</a>
            <a href="2026-01-01T10:00.log">l</a><a href="mailto:me@here">m</a><a href="JavaScript:x()">j</a>
            <a href="weird://host/x">w</a><a href="a:b/">f</a><a href="a:b/c">deeper</a><a href="a:..">up</a>"#;
        assert_eq!(shown(html), ["2026-01-01T10:00.log", "a:..", "a:b/", "run:1.csv", "run:2.csv", "run:3.csv"]);
        let address = Url::parse("http://host/data/").unwrap();
        let unclear: Vec<bool> = names(html.as_bytes(), &address).iter().map(|name| name.unclear).collect();
        assert_eq!(unclear, [false, true, true, true, false, false]);
    }

    #[test]
    fn names_need_not_be_utf8_and_garbage_is_no_name() {
        let address = Url::parse("http://host/").unwrap();
        assert_eq!(names(b"<a href='%ff.bin'>x</a>", &address)[0].bytes, b"\xff.bin");
        assert_eq!(names(b"\xff\xfe<a href=<<<>", &address).len(), 1);
        assert!(names(b"no page at all", &address).is_empty());
    }
}
