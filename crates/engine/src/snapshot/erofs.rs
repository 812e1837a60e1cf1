//! A snapshot as an EROFS image: the kernel serves names, attributes and the page cache, and asks for content in one
//! virtual device, the blob, in which every file begins at a multiple of `BLOCK_BYTES`.
//!
//! The image holds metadata only. It is a view that can be made from a snapshot at any time; versions, keys and stable
//! inodes stay in the snapshot. Knows nothing of who serves the blob. Needs Linux 6.12 (file-backed mounts); before 6.15
//! all files of a compact image show one modification time.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use memmap2::Mmap;

use super::layout::u32_at;
use super::mapped::Snapshot;
use super::{Node, NodeIndex, NodeKind};
use crate::error::{Error, ErrorKind, Result};

pub const BLOCK_BYTES: u64 = 4096;
const SUPER_AT: u64 = 1024;
const DEVICE_SLOT_BYTES: u64 = 128;
const META_BLOCK: u32 = 1;
const ENTRY_BYTES: usize = 12;
/// The kernel numbers inodes by their place in units of these.
const NID_BYTES: u64 = 32;
/// Of a second.
const NANOSECONDS: i64 = 1_000_000_000;
const FEATURE_COMPAT_MTIME: u32 = 2;
const FEATURE_INCOMPAT_CHUNKED_FILE: u32 = 4;
const FEATURE_INCOMPAT_DEVICE_TABLE: u32 = 8;
/// Where both inode forms keep what 64-bit kernels do not read: we keep the first blob block there.
const INODE_NUMBER_AT: usize = 20;
/// Layout of a file's content in an inode's format: chunks, of which each has an entry behind the inode.
const CHUNK_BASED: u16 = 4 << 1;
/// One chunk of 2^31 blocks holds any file; its entry names the device beside the block. By number of the device alone
/// does the kernel join the pages of a read in one request: of an address in all devices each is asked for by itself.
const CHUNK_FORMAT: u16 = 31 | 1 << 5;
const CHUNK_ENTRY_BYTES: u64 = 8;
const BLOB_DEVICE: u16 = 1;

/// Whom entries belong to, and what may be done with them, where their origin does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    pub uid: u32,
    pub gid: u32,
    /// Permission bits of files.
    pub file_mode: u16,
    /// Permission bits of directories.
    pub directory_mode: u16,
}

/// Where in the blob each file's content lies. Reads the image itself; nothing per file is in memory.
#[derive(Debug)]
pub struct BlobLayout {
    image: Mmap,
    stride_bytes: usize,
    nodes: u32,
    blob_blocks: u32,
}

impl BlobLayout {
    /// Length of the blob, holes between files included.
    pub fn blob_bytes(&self) -> u64 {
        u64::from(self.blob_blocks) * BLOCK_BYTES
    }

    /// Length of the image.
    pub fn image_bytes(&self) -> u64 {
        self.image.len() as u64
    }

    /// Where the content of a file begins in the blob.
    pub fn offset_of(&self, file: NodeIndex) -> Option<u64> {
        (file.0 < self.nodes).then(|| u64::from(self.first_block(file.0)) * BLOCK_BYTES)
    }

    /// The entry whose content, or the rest of its last block, is at `offset` of the blob, and where in it that is.
    pub fn locate(&self, offset: u64) -> Option<(NodeIndex, u64)> {
        let block = u32::try_from(offset / BLOCK_BYTES).ok().filter(|block| *block < self.blob_blocks)?;
        let (mut low, mut high) = (0, self.nodes);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.first_block(middle) <= block { low = middle + 1 } else { high = middle }
        }
        // Entries without content begin where the next file does: the last that begins there has the content.
        let index = low.checked_sub(1)?;
        Some((NodeIndex(index), offset - u64::from(self.first_block(index)) * BLOCK_BYTES))
    }

    fn first_block(&self, index: u32) -> u32 {
        let inode = META_BLOCK as usize * BLOCK_BYTES as usize + index as usize * self.stride_bytes;
        u32_at(&self.image, inode + INODE_NUMBER_AT)
    }
}

/// Writes the image of `snapshot` to `path`. `Unsupported` when the content takes more than 2^32 blocks (16 TiB).
///
/// Mount it with `mount(2)` itself (type `erofs`, option `device=BLOB`): `mount(8)` would put a loop device between.
pub fn write_image(snapshot: &Snapshot, defaults: Defaults, path: &Path) -> Result<BlobLayout> {
    let failed = |error| Error::from_io("write the image", path, error);
    let plan = Plan::of(snapshot, defaults)?;
    let options = File::options().read(true).write(true).create(true).truncate(true).clone();
    let file = options.open(path).map_err(failed)?;
    let blocks = write_content(snapshot, &plan, &file).map_err(failed)?;
    if u64::from(blocks) + plan.blob_blocks > u64::from(u32::MAX) {
        return Err(too_large());
    }
    let places = Places { plan: &plan, content: plan.content_block() };
    write_inodes(snapshot, places, &file).map_err(failed)?;
    write_super(&plan, blocks, snapshot, &file).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    // SAFETY: the image was written by this call and is not changed afterwards; all reads of it are bounds-checked.
    let image = unsafe { Mmap::map(&file) }.map_err(failed)?;
    let stride_bytes = plan.stride_bytes() as usize;
    Ok(BlobLayout { image, stride_bytes, nodes: snapshot.nodes(), blob_blocks: plan.blob_blocks as u32 })
}

fn too_large() -> Error {
    Error::new(ErrorKind::Unsupported, "an EROFS image cannot address more than 16 TiB of files")
        .with_hint("mount through FUSE, or split the dataset")
}

/// What must be known before the first byte is written.
struct Plan {
    nodes: u32,
    defaults: Defaults,
    /// Unless an entry needs more: parts of a second, a size beyond 32 bits, an owner or group beyond 16.
    is_compact: bool,
    blob_blocks: u64,
    /// Seconds; compact inodes count from here.
    epoch_s: i64,
}

impl Plan {
    fn of(snapshot: &Snapshot, defaults: Defaults) -> Result<Plan> {
        let mut plan = Plan { nodes: snapshot.nodes(), defaults, is_compact: true, blob_blocks: 0, epoch_s: i64::MAX };
        let mut latest_s = i64::MIN;
        for node in all_nodes(snapshot) {
            let seconds = node.mtime_ns.div_euclid(NANOSECONDS);
            (plan.epoch_s, latest_s) = (plan.epoch_s.min(seconds), latest_s.max(seconds));
            if node.kind == NodeKind::File {
                plan.blob_blocks = plan.blob_blocks.saturating_add(node.size.div_ceil(BLOCK_BYTES));
            }
            let (_, uid, gid) = plan.rights_of(&node);
            plan.is_compact &= node.size <= u64::from(u32::MAX)
                && uid.max(gid) <= u32::from(u16::MAX)
                && node.mtime_ns.rem_euclid(NANOSECONDS) == 0;
        }
        plan.is_compact &= latest_s.saturating_sub(plan.epoch_s) <= i64::from(u32::MAX);
        if plan.blob_blocks > u64::from(u32::MAX) { Err(too_large()) } else { Ok(plan) }
    }

    /// What the inode itself takes.
    fn inode_bytes(&self) -> u64 {
        if self.is_compact { 32 } else { 64 }
    }

    /// From one inode to the next: the inode, and the entry of a file's chunk; a multiple of the kernel's unit.
    fn stride_bytes(&self) -> u64 {
        (self.inode_bytes() + CHUNK_ENTRY_BYTES).next_multiple_of(NID_BYTES)
    }

    /// The first block behind the inodes: directories and link texts, each from a block of its own.
    fn content_block(&self) -> u32 {
        META_BLOCK + (u64::from(self.nodes) * self.stride_bytes()).div_ceil(BLOCK_BYTES) as u32
    }

    /// Permission bits, owner and group.
    fn rights_of(&self, node: &Node) -> (u16, u32, u32) {
        let Defaults { uid, gid, file_mode, directory_mode } = self.defaults;
        let mode = match node.kind {
            NodeKind::File => file_mode,
            NodeKind::Directory => directory_mode,
            NodeKind::Symlink => 0o777,
        };
        node.permissions.map_or((mode, uid, gid), |known| (known.mode, known.uid, known.gid))
    }

    /// The kernel's number of an entry: its place among the inodes in units of 32 bytes.
    fn nid(&self, index: NodeIndex) -> u64 {
        u64::from(index.0) * (self.stride_bytes() / NID_BYTES)
    }
}

fn all_nodes(snapshot: &Snapshot) -> impl Iterator<Item = Node> + '_ {
    (0..snapshot.nodes()).filter_map(|index| snapshot.node(NodeIndex(index)))
}

/// Writes directories and link texts; answers how many blocks the image has.
fn write_content(snapshot: &Snapshot, plan: &Plan, mut file: &File) -> std::io::Result<u32> {
    let mut block = plan.content_block();
    file.seek(SeekFrom::Start(u64::from(block) * BLOCK_BYTES))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    for node in all_nodes(snapshot).filter(|node| node.kind != NodeKind::File) {
        let content = content_of(snapshot, plan, &node);
        out.write_all(&content)?;
        let padding = content.len().next_multiple_of(BLOCK_BYTES as usize) - content.len();
        out.write_all(&[0; BLOCK_BYTES as usize][..padding])?;
        block += (content.len() as u64).div_ceil(BLOCK_BYTES) as u32;
    }
    out.flush()?;
    Ok(block)
}

fn content_of(snapshot: &Snapshot, plan: &Plan, node: &Node) -> Vec<u8> {
    match node.kind {
        NodeKind::Directory => directory_content(snapshot, plan, node),
        _ => snapshot.symlink_target(node.index).unwrap_or_default(),
    }
}

/// Entries in order of their names, `.` and `..` among them, in blocks of their own.
fn directory_content(snapshot: &Snapshot, plan: &Plan, directory: &Node) -> Vec<u8> {
    let mut blocks = DirectoryBlocks::default();
    let mut dots = [(&b"."[..], directory.index), (&b".."[..], directory.parent)].into_iter().peekable();
    snapshot.children(directory.index, 0, &mut |index, name| {
        while let Some((dot, target)) = dots.next_if(|(dot, _)| *dot < name) {
            blocks.push(dot, plan.nid(target), NodeKind::Directory);
        }
        if let Some(kind) = snapshot.node(index).map(|node| node.kind) {
            blocks.push(name, plan.nid(index), kind);
        }
        true
    });
    dots.for_each(|(dot, target)| blocks.push(dot, plan.nid(target), NodeKind::Directory));
    blocks.finish()
}

/// Each block: the entries, then their names.
#[derive(Default)]
struct DirectoryBlocks {
    done: Vec<u8>,
    entries: Vec<(u64, usize, u8)>,
    names: Vec<u8>,
}

impl DirectoryBlocks {
    fn push(&mut self, name: &[u8], nid: u64, kind: NodeKind) {
        let needed = (self.entries.len() + 1) * ENTRY_BYTES + self.names.len() + name.len();
        if needed > BLOCK_BYTES as usize {
            self.flush();
            self.done.resize(self.done.len().next_multiple_of(BLOCK_BYTES as usize), 0);
        }
        let file_type = match kind {
            NodeKind::File => 1,
            NodeKind::Directory => 2,
            NodeKind::Symlink => 7,
        };
        self.entries.push((nid, self.names.len(), file_type));
        self.names.extend_from_slice(name);
    }

    fn flush(&mut self) {
        let names_at = self.entries.len() * ENTRY_BYTES;
        for (nid, name, file_type) in self.entries.drain(..) {
            self.done.extend_from_slice(&nid.to_le_bytes());
            self.done.extend_from_slice(&((names_at + name) as u16).to_le_bytes());
            self.done.extend_from_slice(&[file_type, 0]);
        }
        self.done.append(&mut self.names);
    }

    fn finish(mut self) -> Vec<u8> {
        self.flush();
        self.done
    }
}

/// Where the next entry's content lies.
struct Places<'a> {
    plan: &'a Plan,
    /// Block of the next directory or link text.
    content: u32,
}

fn write_inodes(snapshot: &Snapshot, mut places: Places<'_>, mut file: &File) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(u64::from(META_BLOCK) * BLOCK_BYTES))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut blob_block = 0;
    for node in all_nodes(snapshot) {
        let (size, block) = match node.kind {
            NodeKind::File => (node.size, None),
            _ => {
                let size = content_of(snapshot, places.plan, &node).len() as u64;
                let block = places.content;
                places.content += size.div_ceil(BLOCK_BYTES) as u32;
                (size, Some(block))
            }
        };
        out.write_all(&inode(places.plan, &node, size, block, blob_block)[..places.plan.stride_bytes() as usize])?;
        if node.kind == NodeKind::File {
            blob_block += size.div_ceil(BLOCK_BYTES) as u32;
        }
    }
    out.flush()
}

/// An inode and what follows it. `block`: where the content lies in the image; `None`: in the blob.
fn inode(plan: &Plan, node: &Node, size: u64, block: Option<u32>, blob_block: u32) -> [u8; 96] {
    let mut bytes = [0; 96];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let (mode, uid, gid) = plan.rights_of(node);
    let (mode, links) = match node.kind {
        NodeKind::File => (0o100_000 | mode, 1),
        NodeKind::Directory => (0o040_000 | mode, node.subdirectories.saturating_add(2)),
        NodeKind::Symlink => (0o120_000 | mode, 1),
    };
    let (seconds, nanoseconds) = (node.mtime_ns.div_euclid(NANOSECONDS), node.mtime_ns.rem_euclid(NANOSECONDS));
    put(4, &mode.to_le_bytes());
    let layout = if block.is_some() { 0 } else { CHUNK_BASED };
    put(0, &(layout | u16::from(!plan.is_compact)).to_le_bytes());
    put(16, &block.unwrap_or(u32::from(CHUNK_FORMAT)).to_le_bytes());
    put(INODE_NUMBER_AT, &blob_block.to_le_bytes());
    if plan.is_compact {
        // A directory with more subdirectories than fit says 1, as ext4's do.
        put(6, &u16::try_from(links).unwrap_or(1).to_le_bytes());
        put(8, &(size as u32).to_le_bytes());
        put(12, &u32::try_from(seconds - plan.epoch_s).unwrap_or(u32::MAX).to_le_bytes());
        put(24, &(uid as u16).to_le_bytes());
        put(26, &(gid as u16).to_le_bytes());
    } else {
        put(8, &size.to_le_bytes());
        put(24, &uid.to_le_bytes());
        put(28, &gid.to_le_bytes());
        put(32, &seconds.to_le_bytes());
        put(40, &(nanoseconds as u32).to_le_bytes());
        put(44, &links.to_le_bytes());
    }
    if block.is_none() {
        let entry = plan.inode_bytes() as usize;
        put(entry + 2, &BLOB_DEVICE.to_le_bytes());
        put(entry + 4, &blob_block.to_le_bytes());
    }
    bytes
}

fn write_super(plan: &Plan, blocks: u32, snapshot: &Snapshot, mut file: &File) -> std::io::Result<()> {
    let mut bytes = [0; 256];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &0xe0f5_e1e2u32.to_le_bytes());
    put(8, &FEATURE_COMPAT_MTIME.to_le_bytes());
    put(12, &[BLOCK_BYTES.trailing_zeros() as u8]);
    put(16, &u64::from(plan.nodes).to_le_bytes());
    put(24, &plan.epoch_s.to_le_bytes());
    put(36, &blocks.to_le_bytes());
    put(40, &META_BLOCK.to_le_bytes());
    put(48, &snapshot.version().to_le_bytes());
    put(80, &(FEATURE_INCOMPAT_CHUNKED_FILE | FEATURE_INCOMPAT_DEVICE_TABLE).to_le_bytes());
    put(86, &1u16.to_le_bytes());
    put(88, &((SUPER_AT / DEVICE_SLOT_BYTES + 1) as u16).to_le_bytes());
    // The one extra device: how long it is, and at which block the kernel sees it begin.
    put(128 + 64, &(plan.blob_blocks as u32).to_le_bytes());
    put(128 + 68, &blocks.to_le_bytes());
    file.seek(SeekFrom::Start(SUPER_AT))?;
    file.write_all(&bytes)
}
