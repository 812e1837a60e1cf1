//! The names on an index page, as Apache, nginx, `python -m http.server` and their like write them.
//!
//! A name is a link to something below the page's own address. Links elsewhere (parent folder, sort orders, other sites)
//! are no names. Pure: page and address in, names out.

use std::collections::BTreeMap;

use html5gum::{Token, Tokenizer};
use percent_encoding::percent_decode_str;
use url::Url;

/// One linked name, decoded; not always UTF-8. With slashes in it, it is that of something in a folder below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub bytes: Vec<u8>,
    pub folder: bool,
    pub sense: Sense,
}

/// How sure it is that a link is meant as the name of something. What comes first weighs more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sense {
    Plain,
    /// As a browser takes it, the link is none of this page's files; but whoever wrote it may have meant one.
    Unclear,
    /// The link leads to another name as well, and may mean no more than that.
    Perhaps,
    /// It cannot be asked for: the bytes are the link as it stands.
    Impossible,
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
    let mut found = Found::default();
    for token in Tokenizer::new(html) {
        let Ok(token) = token;
        let Token::StartTag(tag) = token else { continue };
        if tag.name.as_slice() != b"a" {
            continue;
        }
        if let Some(link) = tag.attributes.get(&b"href"[..]) {
            found.link(&String::from_utf8_lossy(link), address);
        }
    }
    found.into_names()
}

/// What the links read so far lead to.
#[derive(Default)]
struct Found {
    /// By bytes, and whether it is a folder.
    names: BTreeMap<(Vec<u8>, bool), Sense>,
    /// Links with a question mark, and what is before it.
    queries: Vec<(Name, Option<Name>)>,
}

impl Found {
    fn link(&mut self, link: &str, address: &Url) {
        let base = &link[..link.find(['?', '#']).unwrap_or(link.len())];
        // Of the page itself: another order of it, or a place in it.
        if base.is_empty() {
            return;
        }
        if base.len() == link.len() {
            return self.add(name(link, address));
        }
        // Whoever does not escape names may mean one that goes on.
        let whole = name(&link.replace('?', "%3F").replace('#', "%23"), address);
        if link[base.len()..].starts_with('#') {
            self.add(name(base, address));
            let sure = |whole: &Name| whole.sense != Sense::Impossible && !whole.bytes.contains(&b'/');
            return self.add(whole.filter(sure).map(|whole| Name { sense: Sense::Perhaps, ..whole }));
        }
        let Some(whole) = whole else { return };
        let leads_on = link[base.len()..].contains('/');
        let whole = if leads_on { impossible(link) } else { Name { sense: whole.sense.max(Sense::Unclear), ..whole } };
        // Of the page itself, by its whole address.
        if base.ends_with('/') && name(base, address).is_none() {
            return;
        }
        self.queries.push((whole, name(base, address)));
    }

    fn add(&mut self, name: Option<Name>) {
        let Some(Name { bytes, folder, sense }) = name else { return };
        let known = self.names.entry((bytes, folder)).or_insert(sense);
        *known = sense.min(*known);
    }

    fn into_names(mut self) -> Vec<Name> {
        for (whole, base) in std::mem::take(&mut self.queries) {
            // Another view of what the page names anyway.
            let is_view = base.is_some_and(|base| self.names.contains_key(&(base.bytes, base.folder)));
            self.add(Some(whole).filter(|_| !is_view));
        }
        self.names.into_iter().map(|((bytes, folder), sense)| Name { bytes, folder, sense }).collect()
    }
}

/// What `link` names below the page, if it does.
fn name(link: &str, address: &Url) -> Option<Name> {
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
    // An empty name is the folder itself.
    if name.is_empty() {
        return None;
    }
    let mut segments = name.split('/').map(|segment| percent_decode_str(segment).collect::<Vec<u8>>());
    // An encoded slash is in a name that no file has, or reaches out of this folder.
    if segments.clone().any(|segment| segment.contains(&b'/') || matches!(&segment[..], b"." | b"..")) {
        return Some(impossible(link));
    }
    let bytes = segments.by_ref().collect::<Vec<_>>().join(&b'/');
    Some(Name { bytes, folder, sense: if unclear { Sense::Unclear } else { Sense::Plain } })
}

fn impossible(link: &str) -> Name {
    Name { bytes: link.as_bytes().to_vec(), folder: false, sense: Sense::Impossible }
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

    fn senses(html: &str) -> Vec<Sense> {
        let address = Url::parse("http://host/data/").unwrap();
        names(html.as_bytes(), &address).into_iter().map(|name| name.sense).collect()
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
        assert_eq!(shown(html), ["..%2fpasswd", "also", "deep/er", "in"]);
        assert_eq!(senses(html), [Sense::Impossible, Sense::Plain, Sense::Plain, Sense::Plain]);
    }

    #[test]
    fn a_colon_that_was_not_escaped_may_be_one_of_a_name() {
        let html = r#"<a href="run:1.csv">run:1.csv</a><a href="./run:2.csv">2</a><a href="run%3A3.csv">3</a>
            <a href="2026-01-01T10:00.log">l</a><a href="mailto:me@here">m</a><a href="JavaScript:x()">j</a>
            <a href="weird://host/x">w</a><a href="a:b/">f</a><a href="a:b/c">deeper</a><a href="a:..">up</a>"#;
        let names = ["2026-01-01T10:00.log", "a:..", "a:b/", "a:b/c", "run:1.csv", "run:2.csv", "run:3.csv"];
        assert_eq!(shown(html), names);
        let unclear: Vec<bool> = senses(html).into_iter().map(|sense| sense == Sense::Unclear).collect();
        assert_eq!(unclear, [false, true, true, true, true, false, false]);
    }

    #[test]
    fn a_name_that_is_linked_in_two_ways_is_one() {
        let html = r##"<a href="run:1.csv">a</a><a href="./run:1.csv">b</a><a href="x#y">c</a><a href="x%23y">d</a>"##;
        assert_eq!(shown(html), ["run:1.csv", "x", "x#y"]);
        assert_eq!(senses(html), [Sense::Plain; 3]);
    }

    #[test]
    fn a_question_mark_or_hash_that_was_not_escaped_may_be_one_of_a_name() {
        let html = r##"<a href="what?.csv">what?.csv</a><a href="/data/b?.bin">b</a><a href="c#1.csv">c</a>
            <a href="seen">s</a><a href="seen?v=2">view</a><a href="sub/">d</a><a href="sub/?C=N">order</a>
            <a href="/data/?C=N">self</a><a href="./?C=M">self</a><a href="?a">self</a><a href="#b">self</a>
            <a href="../?C=N">up</a><a href="http://other/x?y">other</a><a href="login?next=/data/">in</a>"##;
        assert_eq!(shown(html), ["b?.bin", "c", "c#1.csv", "login?next=/data/", "seen", "sub/", "what?.csv"]);
        use Sense::{Impossible, Perhaps, Plain, Unclear};
        assert_eq!(senses(html), [Unclear, Plain, Perhaps, Impossible, Plain, Plain, Unclear]);
    }

    #[test]
    fn links_may_lead_deeper_and_slashes_are_in_no_name() {
        let html = r#"<a href="a/b.csv">a</a><a href="a/c/">c</a><a href="/data/d/e%20f">e</a><a href="g%2Fh">g</a>
            <a href="i/j%2fk">j</a><a href="l/../m">m</a>"#;
        assert_eq!(shown(html), ["a/b.csv", "a/c/", "d/e f", "g%2Fh", "i/j%2fk", "m"]);
        use Sense::{Impossible, Plain};
        assert_eq!(senses(html), [Plain, Plain, Plain, Impossible, Impossible, Plain]);
    }

    #[test]
    fn names_need_not_be_utf8_and_garbage_is_no_name() {
        let address = Url::parse("http://host/").unwrap();
        assert_eq!(names(b"<a href='%ff.bin'>x</a>", &address)[0].bytes, b"\xff.bin");
        assert_eq!(names(b"\xff\xfe<a href=<<<>", &address).len(), 1);
        assert!(names(b"no page at all", &address).is_empty());
    }
}
