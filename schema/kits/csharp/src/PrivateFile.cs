using System.IO;

namespace LuckyTransport
{
    /// <summary>
    /// Opens, makes and removes files in a directory where every user may write. A file is used only when it is a
    /// regular file of this user with mode 0600; the check is made on the open descriptor.
    /// </summary>
    internal static unsafe class PrivateFile
    {
        private const uint Mode = 0x180; // 0600
        private const uint ModeBits = 0xFFF; // the permissions and the set-id and sticky bits

        /// <summary>Opens a file that is there; -1 when it is not. Throws SegmentError for any other file.</summary>
        internal static int Open(string path)
        {
            int fd = Libc.Open(path, Flags);
            if (fd < 0)
            {
                int error = Libc.Errno;
                if (error == Libc.ENOENT) return -1;
                throw Refusal(path, error);
            }
            Libc.Status status;
            if (Libc.TryStat(fd, out status) && IsPrivate(status)) return fd;
            Libc.close(fd);
            throw Foreign(path, status);
        }

        /// <summary>Makes a file that is not there, with mode 0600 whatever the umask is; -1 when it is there.</summary>
        internal static int Make(string path)
        {
            int fd = Libc.Open(path, Flags | Libc.O_CREAT | Libc.O_EXCL, Mode);
            if (fd < 0)
            {
                int error = Libc.Errno;
                if (error == Libc.EEXIST) return -1;
                throw Refusal(path, error);
            }
            Libc.fchmod(fd, Mode);
            return fd;
        }

        /// <summary>Removes a file or link of this user; another user's file stays. Returns whether it was removed.</summary>
        internal static bool Remove(string path)
        {
            Libc.Status status;
            return Libc.TryStat(path, out status) && !status.IsDirectory && status.Uid == Libc.geteuid()
                && Libc.unlink(path) == 0;
        }

        // O_NONBLOCK: opening a FIFO would otherwise wait for its other end. It has no effect on regular files.
        private static int Flags
        {
            get { return Libc.O_RDWR | Libc.O_CLOEXEC | Libc.O_NOFOLLOW | Libc.O_NONBLOCK; }
        }

        private static bool IsPrivate(Libc.Status status)
        {
            return (status.Mode & Libc.S_IFMT) == Libc.S_IFREG && status.Uid == Libc.geteuid()
                && (status.Mode & ModeBits) == Mode;
        }

        private static TransportException Refusal(string path, int error)
        {
            Libc.Status status;
            if (Libc.TryStat(path, out status) && !IsPrivate(status)) return Foreign(path, status);
            return new TransportException(WireCode.SegmentError, string.Format(
                "{0} cannot be opened: {1}; check the rights of its directory and the limit of open files (ulimit -n)",
                path, Libc.Text(error)));
        }

        private static TransportException Foreign(string path, Libc.Status status)
        {
            return new TransportException(WireCode.SegmentError, string.Format(
                "{0} is of kind {1:x} and user {2} with mode {3}, expected a regular file of user {4} with mode 0600; "
                + "use another name, or remove that file",
                path, status.Mode & Libc.S_IFMT, status.Uid,
                System.Convert.ToString(status.Mode & (int)ModeBits, 8).PadLeft(4, '0'), Libc.geteuid()));
        }
    }
}
