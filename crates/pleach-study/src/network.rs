//! File systems of other machines, on which `SQLite` in WAL mode and file locks cannot be trusted.

use std::path::Path;

/// The magic numbers of statfs(2) of file systems that are always of another machine.
const NETWORK: &[(u64, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9p"),
    (0x0bd0_0bd0, "Lustre"),
    (0x00c3_6400, "Ceph"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0xaad7_aaea, "PanFS"),
    (0x2003_0528, "OrangeFS"),
];

/// File systems in user space share one magic number; these types are of other machines.
const FUSE: u64 = 0x6573_5546;
const FUSE_NETWORK: &[&str] = &[
    "sshfs",
    "s3fs",
    "goofys",
    "gcsfuse",
    "rclone",
    "glusterfs",
    "juicefs",
    "davfs",
    "davfs2",
    "ceph",
    "cephfs",
    "lustre",
    "moosefs",
    "mfs",
    "lizardfs",
    "seaweedfs",
    "blobfuse",
    "blobfuse2",
    "mount-s3",
    "mountpoint-s3",
    "hdfs",
    "afp",
    "smbnetfs",
];

/// The kind of network file system that `path`, or its folder if it does not exist, lies on;
/// `None` on a local one, and where that cannot be told.
pub(crate) fn filesystem_of(path: &Path) -> Option<String> {
    let existing = path.ancestors().find(|path| path.exists())?;
    name(magic(existing)?, || mount_type(existing))
}

fn name(magic: u64, mount_type: impl FnOnce() -> Option<String>) -> Option<String> {
    if magic == FUSE {
        let kind = mount_type()?;
        let bare = kind.strip_prefix("fuse.").unwrap_or(&kind);
        return FUSE_NETWORK.contains(&bare).then(|| bare.to_owned());
    }
    NETWORK.iter().find(|(known, _)| *known == magic).map(|(_, name)| (*name).to_owned())
}

#[cfg(target_os = "linux")]
fn magic(path: &Path) -> Option<u64> {
    // The field is 32 bits wide on some architectures and sign-extended; the magic numbers are 32 bits.
    let stat = rustix::fs::statfs(path).ok()?;
    #[expect(clippy::cast_sign_loss, reason = "the low 32 bits are meant")]
    let bits = stat.f_type as u64 & 0xffff_ffff;
    Some(bits)
}

#[cfg(not(target_os = "linux"))]
fn magic(_: &Path) -> Option<u64> {
    None
}

/// The type of the mount that `path` lies on, from `/proc/self/mountinfo`.
fn mount_type(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    type_in(&mounts, &path)
}

/// The type of the innermost mount around `path` in text of the form of `proc_pid_mountinfo(5)`.
fn type_in(mounts: &str, path: &Path) -> Option<String> {
    mounts
        .lines()
        .filter_map(|line| {
            let mount_point = line.split(' ').nth(4)?.replace("\\040", " ");
            let kind = line.split(" - ").nth(1)?.split(' ').next()?.to_owned();
            path.starts_with(&mount_point).then_some((mount_point.len(), kind))
        })
        .max_by_key(|(len, _)| *len)
        .map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        let fuse = |kind: &'static str| name(FUSE, move || Some(kind.to_owned()));
        assert_eq!(name(0x6969, || None).as_deref(), Some("NFS"));
        assert_eq!(name(0xff53_4d42, || None).as_deref(), Some("CIFS"));
        assert_eq!(name(0xef53, || None), None, "ext4");
        assert_eq!(fuse("fuse.sshfs").as_deref(), Some("sshfs"));
        assert_eq!(fuse("fuse.ntfs-3g"), None);
        assert_eq!(fuse("fuseblk"), None);
        assert_eq!(name(FUSE, || None), None);
    }

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda rw\n\
                      30 22 0:50 / /mnt/my\\040data rw,nosuid shared:1 - fuse.sshfs host:/data rw\n";
        let kind = |path: &str| type_in(mounts, Path::new(path));
        assert_eq!(kind("/mnt/my data/a").as_deref(), Some("fuse.sshfs"));
        assert_eq!(kind("/mnt/other").as_deref(), Some("ext4"));
    }

    #[test]
    fn the_temporary_folder_is_local() {
        assert_eq!(filesystem_of(&std::env::temp_dir().join("not there yet")), None);
    }
}
