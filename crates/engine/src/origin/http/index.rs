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
}

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
    let target = address.join(link).ok()?;
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
    Some(Name { bytes, folder })
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
    fn names_need_not_be_utf8_and_garbage_is_no_name() {
        let address = Url::parse("http://host/").unwrap();
        assert_eq!(names(b"<a href='%ff.bin'>x</a>", &address)[0].bytes, b"\xff.bin");
        assert_eq!(names(b"\xff\xfe<a href=<<<>", &address).len(), 1);
        assert!(names(b"no page at all", &address).is_empty());
    }
}
