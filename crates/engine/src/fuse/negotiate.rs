//! The INIT handshake: what the kernel offers, what we take of it, and the plain record of the result.
//!
//! `Negotiated` is all that a session must know of the handshake, so another process can take the connection over.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout};
use std::os::fd::AsFd;

use super::abi::{self, init};
use super::device::{Device, Received};
use super::options::{Mode, MountOptions};
use super::pipe;
use super::reply::{self, Words};
use super::request::{Body, InitRequest, Request};
use crate::error::{Error, ErrorKind, Result};

/// The kernel writes INIT while it mounts, so it is there already.
const INIT_TIMEOUT: Duration = Duration::from_secs(5);

/// 1 MiB, the kernel's own limit unless an administrator raised it (`fs.fuse.max_pages_limit`).
const MAX_PAGES: usize = 256;
/// Smaller requests than this cost more than a copy of each answer does.
const FEWEST_PAGES: usize = 240;

/// The kernel may stack one file system (ours) over the backing file's, none below.
const MAX_STACK_DEPTH: u32 = 1;

/// What kernel and daemon agreed on. Plain data: it may be handed to another process with the descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    pub minor: u32,
    /// The granted bits of `abi::init`.
    pub flags: u64,
    /// Never `Auto`.
    pub mode: Mode,
}

impl Negotiated {
    /// Whether all of `flags` were granted.
    pub fn has(&self, flags: u64) -> bool {
        self.flags & flags == flags
    }
}

/// Answers the kernel's INIT.
pub fn handshake(device: &Device, options: &MountOptions) -> Result<Negotiated> {
    let deadline = Instant::now() + INIT_TIMEOUT;
    let mut buffer = vec![0; abi::MIN_READ_BUFFER_BYTES];
    loop {
        wait_readable(device, deadline)?;
        let Received::Request(length) = device.receive(&mut buffer).map_err(unusable)? else { continue };
        let parsed = Request::parse(&buffer[..length]);
        let Ok(Request { header, body: Body::Init(offer), .. }) = parsed else {
            return Err(Error::new(ErrorKind::Unexpected, "the FUSE connection did not start with a handshake"));
        };
        if offer.major > abi::KERNEL_VERSION {
            // The kernel tries again with our version.
            send(device, header.unique, Words::new().u32(abi::KERNEL_VERSION).u32(abi::KERNEL_MINOR_VERSION))?;
            continue;
        }
        return answer(device, header.unique, &offer, options);
    }
}

fn answer(device: &Device, unique: u64, offer: &InitRequest, options: &MountOptions) -> Result<Negotiated> {
    if offer.major < abi::KERNEL_VERSION || offer.minor < abi::OLDEST_MINOR_VERSION {
        let message = format!("this kernel speaks FUSE {}.{}, too old", offer.major, offer.minor);
        return Err(Error::new(ErrorKind::Unsupported, message).with_hint("Linux 5.4 or later is needed"));
    }
    let negotiated = choose(offer, options);
    send(device, unique, reply_words(&negotiated, options, pages_of_a_request(pipe::slots())))?;
    Ok(negotiated)
}

/// The most pages that the kernel asks for at once: as many as a pipe of `slots` passes on, so that answers need not be
/// copied. Without the right to larger ones (`CAP_SYS_RESOURCE`) a pipe holds 1 MiB, which is no room for the header.
pub fn pages_of_a_request(slots: usize) -> usize {
    let passed = slots.saturating_sub(pipe::SLOTS_BESIDE_PAGES);
    if passed < FEWEST_PAGES { MAX_PAGES } else { passed.min(MAX_PAGES) }
}

/// The read-ahead of `bytes` at most that is made of whole requests.
pub fn whole_requests(bytes: u32) -> u32 {
    let request = (pages_of_a_request(pipe::slots()) as u32) * abi::PAGE_BYTES as u32;
    if bytes < request { bytes } else { bytes / request * request }
}

/// What we take of the offer.
fn choose(offer: &InitRequest, options: &MountOptions) -> Negotiated {
    let always = init::ASYNC_READ
        | init::DO_READDIRPLUS
        | init::READDIRPLUS_AUTO
        | init::ASYNC_DIO
        | init::NO_OPEN_SUPPORT
        | init::PARALLEL_DIROPS
        | init::MAX_PAGES
        | init::CACHE_SYMLINKS
        | init::NO_OPENDIR_SUPPORT
        | init::EXPLICIT_INVAL_DATA
        | init::INIT_EXT
        | init::HAS_RESEND
        | init::ALLOW_IDMAP;
    let passthrough = matches!(options.mode, Mode::Auto | Mode::Passthrough);
    let writes = if options.writable { init::ATOMIC_O_TRUNC | init::BIG_WRITES } else { 0 };
    let wanted = always | writes | if passthrough { init::PASSTHROUGH } else { 0 };
    let flags = wanted & offer.flags;
    let mode = match options.mode {
        Mode::Auto | Mode::Passthrough if flags & init::PASSTHROUGH != 0 => Mode::Passthrough,
        Mode::Elide if flags & init::NO_OPEN_SUPPORT != 0 => Mode::Elide,
        Mode::View => Mode::View,
        _ => Mode::Classic,
    };
    Negotiated { minor: offer.minor.min(abi::KERNEL_MINOR_VERSION), flags, mode }
}

/// `fuse_init_out`.
fn reply_words(negotiated: &Negotiated, options: &MountOptions, pages: usize) -> Words {
    let max_background = options.max_background.max(1);
    let congestion = (max_background / 4 * 3).max(1);
    let (nanosecond, map_alignment, unused) = (1, 0, 24);
    let stack_depth = if negotiated.has(init::PASSTHROUGH) { MAX_STACK_DEPTH } else { 0 };
    Words::new()
        .u32(abi::KERNEL_VERSION)
        .u32(negotiated.minor)
        .u32(options.max_readahead_bytes)
        .u32(negotiated.flags as u32)
        .u16(max_background)
        .u16(congestion)
        .u32(if options.writable { abi::MAX_WRITABLE_BYTES } else { abi::MAX_WRITE_BYTES })
        .u32(nanosecond)
        .u16(pages as u16)
        .u16(map_alignment)
        .u32((negotiated.flags >> 32) as u32)
        .u32(stack_depth)
        .zeros(unused)
}

fn wait_readable(device: &Device, deadline: Instant) -> Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    let mut watched = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
    match nix::poll::poll(&mut watched, timeout) {
        Ok(0) => Err(Error::new(ErrorKind::Timeout, "the kernel did not start the FUSE connection")),
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(unusable(error.into())),
    }
}

fn send(device: &Device, unique: u64, payload: Words) -> Result<()> {
    let head = reply::header(unique, 0, payload.as_bytes().len());
    device.send(&[IoSlice::new(head.as_bytes()), IoSlice::new(payload.as_bytes())]).map_err(unusable)
}

fn unusable(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unexpected, format!("the FUSE connection failed in its handshake: {error}"))
        .with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(flags: u64) -> InitRequest {
        InitRequest { major: 7, minor: 99, max_readahead: 1 << 17, flags }
    }

    #[test]
    fn nothing_is_taken_that_was_not_offered() {
        let options = MountOptions::default();
        assert_eq!(choose(&offer(0), &options), Negotiated { minor: 45, flags: 0, mode: Mode::Classic });
        assert_eq!(choose(&offer(u64::MAX), &options).mode, Mode::Passthrough);
    }

    #[test]
    fn elision_needs_the_kernel() {
        let options = MountOptions { mode: Mode::Elide, ..MountOptions::default() };
        assert_eq!(choose(&offer(init::NO_OPEN_SUPPORT), &options).mode, Mode::Elide);
        assert_eq!(choose(&offer(init::PASSTHROUGH), &options).mode, Mode::Classic);
    }

    #[test]
    fn a_request_is_as_large_as_a_pipe_passes_on_unless_that_is_far_less_than_the_kernel_asks_for() {
        let pages = [0, 16, 247, 248, 256, 300, 512].map(pages_of_a_request);
        assert_eq!(pages, [256, 256, 256, 240, 248, 256, 256]);
    }

    #[test]
    fn the_reply_has_the_size_of_the_kernel() {
        let options = MountOptions::default();
        assert_eq!(reply_words(&choose(&offer(u64::MAX), &options), &options, 256).as_bytes().len(), 64);
    }
}
