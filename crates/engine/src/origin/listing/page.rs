//! One page of a bucket listing, read strictly from the XML that S3 and OSS share.
//!
//! Keys stay exactly as sent: blanks, line ends and character references included; those that the page says to be encoded
//! are decoded (`decode`). Whatever does not look like a complete page is an error, because a listing that is believed
//! too easily loses files.

use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};

use crate::origin::ListedObject;
use crate::origin::listing::decode::{self, Told, shown};
use crate::origin::version::{bare_tag, iso_nanoseconds};

/// One object of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::origin) struct PageEntry {
    /// The whole key, prefix included, as well as text can show it.
    pub key: String,
    pub told: Told,
    pub size: u64,
    /// `ListedObject::UNTOLD_TIME` for markers of folders that have none.
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
    /// Its keys came encoded, as they were asked for.
    pub is_encoded: bool,
}

/// What is wrong with a page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::origin) enum PageFault {
    #[error("a page of the listing is no XML, or was cut off")]
    NotXml,
    #[error("a page of the listing is XML, but no listing")]
    NotAListing,
    #[error("a page of the listing does not tell whether it is the last one")]
    NoEnd,
    #[error("a page of the listing has an entry without a key")]
    NoKey,
    #[error("a page of the listing tells no size or no time of {0}, or none that can be read")]
    Entry(String),
}

type Parsed<T> = std::result::Result<T, PageFault>;

/// Reads a `ListBucketResult`.
pub(in crate::origin) fn parse(xml: &[u8]) -> Parsed<Page> {
    // What is no UTF-8 is some key's, and that key's fault alone.
    let text = String::from_utf8_lossy(xml);
    let mut parser = Parser {
        reader: Reader::from_str(&text),
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
    EncodingType,
    Other,
}

#[derive(Default)]
struct Draft {
    key: Option<String>,
    size: Option<String>,
    time: Option<String>,
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
            "EncodingType" => Element::EncodingType,
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
            ([Element::Listing], Element::EncodingType) => self.page.is_encoded = text.trim() == "url",
            ([Element::Listing], Element::KeyCount) => self.page.key_count = text.trim().parse().ok(),
            ([Element::Listing, Element::Contents], _) => self.keep_field(element, text),
            _ => {}
        }
        Ok(())
    }

    fn keep_field(&mut self, element: Element, text: String) {
        let Some(draft) = &mut self.entry else { return };
        match element {
            Element::Key => draft.key = Some(text),
            Element::Size => draft.size = Some(text),
            Element::LastModified => draft.time = Some(text),
            Element::ETag => draft.etag = Some(bare_tag(text.as_bytes())).filter(|tag| !tag.is_empty()),
            _ => {}
        }
    }

    fn keep_entry(&mut self) -> Parsed<()> {
        let draft = self.entry.take().ok_or(PageFault::NoKey)?;
        let key = draft.key.ok_or(PageFault::NoKey)?;
        let size = draft.size.map(|text| text.trim().parse::<u64>().ok());
        let time = draft.time.map(|text| iso_nanoseconds(&text));
        // Markers of folders are no objects to every server: some tell their names alone.
        let is_marker = key.ends_with('/') || key.ends_with("%2F") || key.ends_with("%2f");
        let (size, mtime_ns) = match (size, time) {
            (Some(Some(size)), Some(Some(time))) => (size, time),
            (None | Some(Some(_)), None | Some(Some(_))) if is_marker => {
                (size.flatten().unwrap_or(0), time.flatten().unwrap_or(ListedObject::UNTOLD_TIME))
            }
            _ => return Err(PageFault::Entry(shown(&key))),
        };
        self.page.entries.push(PageEntry { key, told: Told::Whole, size, mtime_ns, etag: draft.etag });
        Ok(())
    }

    fn finish(mut self) -> Parsed<Page> {
        if !self.root_closed || !self.path.is_empty() {
            return Err(PageFault::NotXml);
        }
        self.page.truncated = self.truncated.ok_or(PageFault::NoEnd)?;
        // Whether they are encoded may be said after them.
        for entry in &mut self.page.entries {
            (entry.key, entry.told) = decode::key(std::mem::take(&mut entry.key), self.page.is_encoded);
        }
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
    if reference.is_char_ref() {
        // What XML has no number for, as NUL, is lost, and its key is garbled.
        return Ok(reference.resolve_char_ref().ok().flatten().unwrap_or(char::REPLACEMENT_CHARACTER));
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
        assert_eq!(parse(listing(without_size).as_bytes()), Err(PageFault::Entry("'k'".to_owned())));
    }

    #[test]
    fn a_marker_of_a_folder_needs_neither_size_nor_time() {
        let end = "<IsTruncated>false</IsTruncated>";
        let page = parse(listing(&format!("{end}<Contents><Key>a/</Key></Contents>")).as_bytes()).unwrap();
        assert_eq!((page.entries[0].size, page.entries[0].mtime_ns), (0, ListedObject::UNTOLD_TIME));
        for wrong in ["<Size>x</Size>", "<LastModified>yesterday</LastModified>"] {
            let xml = listing(&format!("{end}<Contents><Key>a/</Key>{wrong}</Contents>"));
            assert_eq!(parse(xml.as_bytes()), Err(PageFault::Entry("'a/'".to_owned())));
        }
    }

    #[test]
    fn keys_are_decoded_where_the_page_says_so_even_at_its_end() {
        let inside = format!("<IsTruncated>false</IsTruncated>{}", entry("a+b%01"));
        let encoded = format!("{inside}<EncodingType>url</EncodingType>");
        assert_eq!(parse(listing(&encoded).as_bytes()).unwrap().entries[0].key, "a b\u{1}");
        assert_eq!(parse(listing(&inside).as_bytes()).unwrap().entries[0].key, "a+b%01");
    }

    #[test]
    fn a_key_of_which_a_character_is_lost_is_no_other_keys_fault() {
        for lost in ["b\u{fffd}", "b&#0;", "b&#xD800;"] {
            let xml = listing(&format!("<IsTruncated>false</IsTruncated>{}{}", entry("a"), entry(lost)));
            let page = parse(xml.as_bytes()).unwrap();
            assert_eq!((&page.entries[0].told, &page.entries[1].told), (&Told::Whole, &Told::Garbled));
        }
    }
}
