//! The secrets of a cluster: one token for who runs it, others derived from it for workers and for readers, and how one
//! side proves to the other which of them it knows.
//!
//! A worker's token follows from the whole one, a reader's from a worker's, and none leads back. No token leaves the
//! process: a proof is a keyed BLAKE3 hash over everything both sides said.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::{Error, ErrorKind, Result};

const MIN_CHARACTERS: usize = 16;
/// That others than owner and group can read or write a file.
const OTHERS: u32 = 0o006;
/// Whoever has the whole token is a worker on this wire.
const WORKER_CONTEXT: &str = "headrace 2026 peer protocol, key of workers from the whole token";
const READER_CONTEXT: &str = "headrace 2026 peer protocol, key of readers from that of workers";

type Key = [u8; 32];

/// What a connection may ask for; each may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    /// Read, and have blocks compared with their checksums.
    Reader,
    /// Whatever a worker can be asked for: hold, drop and pin blocks.
    Worker,
}

impl Rights {
    /// From the most to the least.
    const ALL: [Rights; 2] = [Rights::Worker, Rights::Reader];

    /// What a derived token begins with.
    fn prefix(self) -> &'static str {
        match self {
            Rights::Reader => "headrace.reader.",
            Rights::Worker => "headrace.worker.",
        }
    }
}

/// A secret of a cluster, with the rights that it gives. Never prints itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// `None` in the hands of a reader.
    worker: Option<Key>,
    reader: Key,
}

/// Who proves; a proof of one side is worth nothing as a proof of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

impl Token {
    /// Any text of at least 16 characters, or one that `derived` made; white space around it is not part of it.
    pub fn new(text: &str) -> Result<Token> {
        let text = text.trim();
        if text.chars().count() < MIN_CHARACTERS {
            let message = format!("the cluster's token is shorter than {MIN_CHARACTERS} characters");
            return Err(Error::config(message).with_hint("use a random one: `openssl rand -hex 32`"));
        }
        if let Some(digits) = text.strip_prefix(Rights::Reader.prefix()) {
            return Ok(Token { worker: None, reader: key_of(digits)? });
        }
        Ok(Self::of_worker(match text.strip_prefix(Rights::Worker.prefix()) {
            Some(digits) => key_of(digits)?,
            None => derived_key(text.as_bytes(), WORKER_CONTEXT),
        }))
    }

    fn of_worker(key: Key) -> Token {
        Token { worker: Some(key), reader: derived_key(&key, READER_CONTEXT) }
    }

    /// The token in a file, as `new` takes it. `PermissionDenied` for one that any user of this machine can read or write.
    pub fn from_file(path: &Path) -> Result<Token> {
        let mode = std::fs::metadata(path).map_err(|error| Error::from_io("read the token in", path, error))?.mode();
        if mode & OTHERS != 0 {
            let message = format!("the token file {} is open to every user of this machine", path.display());
            let error = Error::new(ErrorKind::PermissionDenied, message);
            return Err(error.with_hint(format!("chmod 600 {}", path.display())));
        }
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => Error::config(format!("the token in {} is not text", path.display())),
            _ => Error::from_io("read the token in", path, error),
        })?;
        Self::new(&text).map_err(|error| error.with_context("file", path.display()))
    }

    /// What it lets its holder do.
    pub fn rights(&self) -> Rights {
        if self.worker.is_some() { Rights::Worker } else { Rights::Reader }
    }

    /// The text of a token with these rights and no more. `PermissionDenied` where this one has less.
    pub fn derived(&self, rights: Rights) -> Result<String> {
        let digits = blake3::Hash::from_bytes(*self.key(rights)?).to_hex();
        Ok(format!("{}{digits}", rights.prefix()))
    }

    /// What `side` sends to prove that it has these rights. `PermissionDenied` where this token does not give them.
    pub(super) fn proof(&self, side: Side, rights: Rights, transcript: &[u8]) -> Result<[u8; 32]> {
        Ok(*hash(self.key(rights)?, side, transcript).as_bytes())
    }

    /// The rights that a client proves. `PermissionDenied` unless `proof` is what a client with some would have sent.
    /// Takes the same time for every wrong proof.
    pub(super) fn check_client(&self, transcript: &[u8], proof: [u8; 32]) -> Result<Rights> {
        let proves = |rights: &Rights| self.is_proof(Side::Client, *rights, transcript, proof);
        Rights::ALL.into_iter().find(proves).ok_or_else(|| {
            refused("the peer refused this process: it does not have the cluster's token")
                .with_hint("give tokens of the same cluster to the master, all workers and all mounts")
        })
    }

    /// `PermissionDenied` unless the server knows this token, too.
    pub(super) fn check_server(&self, transcript: &[u8], proof: [u8; 32]) -> Result<()> {
        if self.is_proof(Side::Server, self.rights(), transcript, proof) {
            return Ok(());
        }
        Err(refused("the peer does not have the cluster's token")
            .with_hint("give tokens of the same cluster to the master, all workers and all mounts"))
    }

    fn is_proof(&self, side: Side, rights: Rights, transcript: &[u8], proof: [u8; 32]) -> bool {
        // Comparing two `blake3::Hash` takes constant time.
        self.key(rights).is_ok_and(|key| hash(key, side, transcript) == blake3::Hash::from_bytes(proof))
    }

    fn key(&self, rights: Rights) -> Result<&Key> {
        match rights {
            Rights::Reader => Ok(&self.reader),
            Rights::Worker => self.worker.as_ref().ok_or_else(|| {
                refused("a reader's token is not enough for a worker")
                    .with_hint("give it the whole token of the cluster, or `headrace token --for worker`")
            }),
        }
    }
}

fn refused(message: &'static str) -> Error {
    Error::new(ErrorKind::PermissionDenied, message)
}

/// HMAC-SHA256, which Python has as well (`control/rights.py`): where tokens are derived is no engine.
fn derived_key(key: &[u8], context: &str) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    mac.update(context.as_bytes());
    mac.finalize().into_bytes().into()
}

/// The key in a derived token.
fn key_of(digits: &str) -> Result<Key> {
    blake3::Hash::from_hex(digits.as_bytes()).map(|hash| *hash.as_bytes()).map_err(|_| {
        Error::config("the cluster's token is damaged: it begins as a derived one does, and 64 digits do not follow")
            .with_hint("copy all of what `headrace token` printed")
    })
}

fn hash(key: &Key, side: Side, transcript: &[u8]) -> blake3::Hash {
    let label: &[u8] = match side {
        Side::Client => b"headrace peer client\0",
        Side::Server => b"headrace peer server\0",
    };
    blake3::Hasher::new_keyed(key).update(label).update(transcript).finalize()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Token {
        Token::new("0123456789abcdef").expect("long")
    }

    fn derived(rights: Rights) -> Token {
        Token::new(&whole().derived(rights).expect("enough")).expect("a token")
    }

    #[test]
    fn a_proof_holds_for_one_side_one_token_and_one_transcript() {
        let other = Token::new("fedcba9876543210").expect("long");
        let proof = whole().proof(Side::Client, Rights::Worker, b"nonces").expect("enough");
        assert_eq!(whole().check_client(b"nonces", proof).expect("known"), Rights::Worker);
        assert!(whole().check_server(b"nonces", proof).is_err());
        assert!(whole().check_client(b"other", proof).is_err());
        assert_eq!(other.check_client(b"nonces", proof).expect_err("wrong").kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn every_token_gives_its_own_rights_to_all_who_know_more() {
        let tokens = [whole(), derived(Rights::Worker), derived(Rights::Reader)];
        assert_eq!(tokens.each_ref().map(Token::rights), [Rights::Worker, Rights::Worker, Rights::Reader]);
        for client in &tokens {
            let proof = client.proof(Side::Client, client.rights(), b"nonces").expect("its own");
            for server in &tokens[..2] {
                assert_eq!(server.check_client(b"nonces", proof).expect("known"), client.rights());
                let answer = server.proof(Side::Server, client.rights(), b"nonces").expect("enough");
                client.check_server(b"nonces", answer).expect("known");
            }
        }
    }

    #[test]
    fn a_reader_cannot_pass_for_a_worker() {
        let reader = derived(Rights::Reader);
        let error = reader.proof(Side::Client, Rights::Worker, b"nonces").expect_err("too little");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(reader.derived(Rights::Worker).is_err());
        let pretended = reader.proof(Side::Server, Rights::Reader, b"nonces").expect("its own");
        assert!(derived(Rights::Worker).check_server(b"nonces", pretended).is_err());
    }

    /// What is written into files of tokens stays what it is.
    #[test]
    fn derived_tokens_are_always_the_same() {
        let texts = Rights::ALL.map(|rights| whole().derived(rights).expect("enough"));
        assert_eq!(texts[0], "headrace.worker.7fbd4ef7d76f638c69eda94614da59c8d6e5a91345e9fdf49567d70c80483171");
        assert_eq!(texts[1], "headrace.reader.6ccd4c840b2ffbc63bcf81717f149f81474906dc7f246e89490373f52154ee5d");
        assert_eq!(derived(Rights::Worker).derived(Rights::Reader).expect("enough"), texts[1]);
    }

    #[test]
    fn a_token_never_prints_itself_and_is_neither_short_nor_damaged() {
        assert_eq!(format!("{:?}", Token::new(" 0123456789abcdef\n").expect("long")), "***");
        let error = Token::new("  0123456789abcde  ").expect_err("short");
        assert!(!format!("{error:?}").contains("0123456789abcde"));
        let text = whole().derived(Rights::Reader).expect("enough");
        let error = Token::new(&text[..text.len() - 1]).expect_err("cut off");
        assert!(error.kind() == ErrorKind::Config && !format!("{error:?}").contains(&text[..30]), "{error:?}");
    }
}
