//! Numbers of the FUSE kernel protocol (ABI 7.45) that this session uses. Knows no file system and no descriptor.
//!
//! Only what is used stands here; the names are the kernel's own (`include/uapi/linux/fuse.h`), so they can be found.

pub const KERNEL_VERSION: u32 = 7;
pub const KERNEL_MINOR_VERSION: u32 = 45;

/// Linux 5.4. Older kernels lack the zero-message opendir and the larger requests that every mode builds on.
pub const OLDEST_MINOR_VERSION: u32 = 31;

/// Bytes of `fuse_in_header` and `fuse_out_header`.
pub const IN_HEADER_BYTES: usize = 40;
pub const OUT_HEADER_BYTES: usize = 16;

/// The kernel refuses `read` with a smaller buffer: max(FUSE_MIN_READ_BUFFER, headers + `max_write`).
pub const MIN_READ_BUFFER_BYTES: usize = 8192;

/// The kernel raises a smaller `max_write` to this. To a read-only tree nothing larger ever comes.
pub const MAX_WRITE_BYTES: u32 = 4096;

/// The largest write to a writable tree: with its head it fits the buffers of the ledger.
pub const MAX_WRITABLE_BYTES: u32 = 7 * 4096;

pub const PAGE_BYTES: u64 = 4096;

/// Bits of `init.flags`; the upper half travels in `flags2`.
pub mod init {
    pub const ASYNC_READ: u64 = 1;
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const PASSTHROUGH: u64 = 1 << 37;
    pub const HAS_RESEND: u64 = 1 << 39;
    pub const ALLOW_IDMAP: u64 = 1 << 40;
}

/// The bit that marks the number of a request that is sent again (FUSE_UNIQUE_RESEND).
pub const RESENT: u64 = 1 << 63;

/// Bits of `open_out.open_flags`.
pub mod open {
    pub const DIRECT_IO: u32 = 1;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const NOFLUSH: u32 = 1 << 5;
    pub const PASSTHROUGH: u32 = 1 << 7;
}

/// Bits of `setattr_in.valid`.
pub mod set {
    pub const MODE: u32 = 1;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const MTIME: u32 = 1 << 5;
    pub const HANDLE: u32 = 1 << 6;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const OWNER: u32 = 1 << 9;
}

/// Codes of messages that the daemon starts.
pub mod notify {
    pub const INVAL_INODE: i32 = 2;
    pub const INVAL_ENTRY: i32 = 3;
    pub const STORE: i32 = 4;
    pub const RESEND: i32 = 7;
    pub const INC_EPOCH: i32 = 8;
}

/// Every operation of the protocol with its number and its name in the metrics.
macro_rules! operations {
    ($($variant:ident = $number:literal, $name:literal;)*) => {
        /// What the kernel asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Opcode { $($variant = $number),* }

        impl Opcode {
            /// In the order of their numbers.
            pub const ALL: &'static [(Opcode, &'static str)] = &[$((Opcode::$variant, $name)),*];

            /// `None` for an operation that this version of the protocol does not have.
            pub fn from_number(number: u32) -> Option<Opcode> {
                match number { $($number => Some(Opcode::$variant),)* _ => None }
            }
        }
    };
}

operations! {
    Lookup = 1, "lookup";
    Forget = 2, "forget";
    GetAttributes = 3, "getattr";
    SetAttributes = 4, "setattr";
    ReadLink = 5, "readlink";
    SymbolicLink = 6, "symlink";
    MakeNode = 8, "mknod";
    MakeDirectory = 9, "mkdir";
    Unlink = 10, "unlink";
    RemoveDirectory = 11, "rmdir";
    Rename = 12, "rename";
    Link = 13, "link";
    Open = 14, "open";
    Read = 15, "read";
    Write = 16, "write";
    StatFileSystem = 17, "statfs";
    Release = 18, "release";
    Sync = 20, "fsync";
    SetExtended = 21, "setxattr";
    GetExtended = 22, "getxattr";
    ListExtended = 23, "listxattr";
    RemoveExtended = 24, "removexattr";
    Flush = 25, "flush";
    Init = 26, "init";
    OpenDirectory = 27, "opendir";
    ReadDirectory = 28, "readdir";
    ReleaseDirectory = 29, "releasedir";
    SyncDirectory = 30, "fsyncdir";
    GetLock = 31, "getlk";
    SetLock = 32, "setlk";
    SetLockWait = 33, "setlkw";
    Access = 34, "access";
    Create = 35, "create";
    Interrupt = 36, "interrupt";
    BlockMap = 37, "bmap";
    Destroy = 38, "destroy";
    DeviceControl = 39, "ioctl";
    Poll = 40, "poll";
    NotifyReply = 41, "notify_reply";
    BatchForget = 42, "batch_forget";
    Allocate = 43, "fallocate";
    ReadDirectoryPlus = 44, "readdirplus";
    RenameWithFlags = 45, "rename2";
    Seek = 46, "lseek";
    CopyRange = 47, "copy_file_range";
    SetUpMapping = 48, "setupmapping";
    RemoveMapping = 49, "removemapping";
    SyncFileSystem = 50, "syncfs";
    TemporaryFile = 51, "tmpfile";
    ExtendedStat = 52, "statx";
    CopyRange64 = 53, "copy_file_range_64";
}
