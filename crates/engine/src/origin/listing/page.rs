//! One page of a bucket listing, read strictly from the XML that S3 and OSS share.
//!
//! Keys stay exactly as sent: blanks, line ends and character references included. Whatever does not look like a
//! complete page is an error, because a listing that is believed too easily loses files.

use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};

use crate::origin::version::{bare_tag, iso_nanoseconds};

/// One object of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::origin) struct PageEntry {
    /// The whole key, prefix included.
    pub key: String,
    pub size: u64,
    pub mtime_ns: i64,
    pub etag: Option<Box<[u8]>>,
}

/// One page, keys in the server's order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::origin) struct Page {
    pub entries: Vec<PageEntry>,
    /// More keys follow.
    pub truncated: bool,
    /// Where the server would go on; tells apart a truncated page from a broken one.
    pub continuation: Option<String>,
    /// How many keys the server says are on the page.
    pub key_count: Option<u64>,
}

/// What is wrong with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::origin) enum PageFault {
    #[error("a page of the listing is no XML, or was cut off")]
    NotXml,
    #[error("a page of the listing is XML, but no listing")]
    NotAListing,
    #[error("a page of the listing does not tell whether it is the last one")]
    NoEnd,
    #[error("a page of the listing has an entry without key, size or time")]
    Entry,
}

type Parsed<T> = std::result::Result<T, PageFault>;

/// Reads a `ListBucketResult`.
pub(in crate::origin) fn parse(xml: &[u8]) -> Parsed<Page> {
    let text = std::str::from_utf8(xml).map_err(|_| PageFault::NotXml)?;
    let mut parser = Parser {
        reader: Reader::from_str(text),
        path: Vec::new(),
        text: String::new(),
        page: Page::default(),
        truncated: None,
        entry: None,
        root_closed: false,
    };
    while parser.step()? {}
    parser.finish()
}

struct Parser<'a> {
    reader: Reader<&'a [u8]>,
    path: Vec<Element>,
    text: String,
    page: Page,
    truncated: Option<bool>,
    entry: Option<Draft>,
    root_closed: bool,
}

/// The elements that matter; everything else is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Listing,
    Contents,
    Key,
    Size,
    LastModified,
    ETag,
    IsTruncated,
    Continuation,
    KeyCount,
    Other,
}

#[derive(Default)]
struct Draft {
    key: Option<String>,
    size: Option<u64>,
    mtime_ns: Option<i64>,
    etag: Option<Box<[u8]>>,
}

impl Element {
    fn named(name: &str) -> Self {
        match name {
            "ListBucketResult" => Element::Listing,
            "Contents" => Element::Contents,
            "Key" => Element::Key,
            "Size" => Element::Size,
            "LastModified" => Element::LastModified,
            "ETag" => Element::ETag,
            "IsTruncated" => Element::IsTruncated,
            "NextContinuationToken" | "NextMarker" => Element::Continuation,
            "KeyCount" => Element::KeyCount,
            _ => Element::Other,
        }
    }
}

impl Parser<'_> {
    /// Takes in one event; false at the end.
    fn step(&mut self) -> Parsed<bool> {
        match self.reader.read_event().map_err(|_| PageFault::NotXml)? {
            Event::Start(tag) => {
                let element = Element::named(tag.local_name().as_ref());
                self.open(element)?;
            }
            Event::Empty(tag) => {
                let element = Element::named(tag.local_name().as_ref());
                self.open(element)?;
                self.close()?;
            }
            Event::End(_) => self.close()?,
            Event::Text(text) => self.text.push_str(&text),
            Event::CData(text) => self.text.push_str(&text),
            Event::GeneralRef(reference) => self.text.push(character(&reference)?),
            Event::Eof => return Ok(false),
            _ => {}
        }
        Ok(true)
    }

    fn open(&mut self, element: Element) -> Parsed<()> {
        if self.path.is_empty() && element != Element::Listing {
            return Err(PageFault::NotAListing);
        }
        if self.path == [Element::Listing] && element == Element::Contents {
            self.entry = Some(Draft::default());
        }
        self.path.push(element);
        self.text.clear();
        Ok(())
    }

    fn close(&mut self) -> Parsed<()> {
        let element = self.path.pop().ok_or(PageFault::NotXml)?;
        let text = std::mem::take(&mut self.text);
        match (self.path.as_slice(), element) {
            ([], _) => self.root_closed = true,
            ([Element::Listing], Element::Contents) => self.keep_entry()?,
            ([Element::Listing], Element::IsTruncated) => self.truncated = Some(boolean(&text)?),
            ([Element::Listing], Element::Continuation) if !text.is_empty() => self.page.continuation = Some(text),
            ([Element::Listing], Element::KeyCount) => self.page.key_count = text.trim().parse().ok(),
            ([Element::Listing, Element::Contents], _) => self.keep_field(element, text)?,
            _ => {}
        }
        Ok(())
    }

    fn keep_field(&mut self, element: Element, text: String) -> Parsed<()> {
        let Some(draft) = &mut self.entry else { return Ok(()) };
        match element {
            Element::Key => draft.key = Some(text),
            Element::Size => draft.size = Some(text.trim().parse().map_err(|_| PageFault::Entry)?),
            Element::LastModified => draft.mtime_ns = Some(iso_nanoseconds(&text).ok_or(PageFault::Entry)?),
            Element::ETag => draft.etag = Some(bare_tag(text.as_bytes())).filter(|tag| !tag.is_empty()),
            _ => {}
        }
        Ok(())
    }

    fn keep_entry(&mut self) -> Parsed<()> {
        let draft = self.entry.take().ok_or(PageFault::Entry)?;
        let (Some(key), Some(size), Some(mtime_ns)) = (draft.key, draft.size, draft.mtime_ns) else {
            return Err(PageFault::Entry);
        };
        self.page.entries.push(PageEntry { key, size, mtime_ns, etag: draft.etag });
        Ok(())
    }

    fn finish(mut self) -> Parsed<Page> {
        if !self.root_closed || !self.path.is_empty() {
            return Err(PageFault::NotXml);
        }
        self.page.truncated = self.truncated.ok_or(PageFault::NoEnd)?;
        Ok(self.page)
    }
}

fn boolean(text: &str) -> Parsed<bool> {
    match text.trim() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(PageFault::NoEnd),
    }
}

fn character(reference: &BytesRef) -> Parsed<char> {
    if let Some(character) = reference.resolve_char_ref().map_err(|_| PageFault::NotXml)? {
        return Ok(character);
    }
    match &**reference {
        "amp" => Ok('&'),
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => Err(PageFault::NotXml),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn listing(inside: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{inside}</ListBucketResult>"
        )
    }

    fn entry(key: &str) -> String {
        format!(
            "<Contents><Key>{key}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>7</Size><Owner><ID>x</ID></Owner></Contents>"
        )
    }

    #[test]
    fn keys_stay_as_they_were_sent() {
        for (sent, meant) in [
            (" a ", " a "),
            ("a&amp;b", "a&b"),
            ("&#10;x&#x41;", "\nxA"),
            ("a//b", "a//b"),
            ("é\n", "é\n"),
            ("<![CDATA[<k>]]>", "<k>"),
        ] {
            let xml = listing(&format!("<IsTruncated>false</IsTruncated>{}", entry(sent)));
            let page = parse(xml.as_bytes()).unwrap();
            assert_eq!(page.entries[0].key, meant);
            assert_eq!(page.entries[0].etag.as_deref(), Some(&b"e"[..]));
            assert_eq!(page.entries[0].size, 7);
        }
    }

    #[test]
    fn a_page_must_be_whole_and_must_tell_its_end() {
        let whole = listing(&format!(
            "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>{}",
            entry("k")
        ));
        let page = parse(whole.as_bytes()).unwrap();
        assert!(page.truncated && page.continuation.as_deref() == Some("t"));
        for end in 0..whole.len() {
            assert!(parse(&whole.as_bytes()[..end]).is_err(), "cut at {end}");
        }
        assert_eq!(parse(listing("").as_bytes()), Err(PageFault::NoEnd));
        assert_eq!(parse(b"<html><body>Welcome</body></html>"), Err(PageFault::NotAListing));
        assert_eq!(parse(b""), Err(PageFault::NotXml));
        assert_eq!(parse(b"\xff\xfe"), Err(PageFault::NotXml));
        let without_size = "<IsTruncated>false</IsTruncated><Contents><Key>k</Key></Contents>";
        assert_eq!(parse(listing(without_size).as_bytes()), Err(PageFault::Entry));
    }
}
