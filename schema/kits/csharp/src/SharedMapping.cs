using System;
using System.Threading;

namespace LuckyTransport
{
    /// <summary>A new file of zero bytes, mapped shared; every page is there before the first touch.</summary>
    internal sealed unsafe class SharedMapping : IDisposable
    {
        private byte* _start;
        private int _fd;

        private SharedMapping(string path, int fd, byte* start, long size)
        {
            Path = path;
            Size = size;
            _fd = fd;
            _start = start;
        }

        internal string Path { get; private set; }

        internal long Size { get; private set; }

        /// <summary>The first byte. Throws ObjectDisposedException once it was unmapped.</summary>
        internal byte* Start
        {
            get
            {
                if (_start == null) throw new ObjectDisposedException(Path);
                return _start;
            }
        }

        /// <summary>Makes the file; null when there is one. Throws NoSpace, SegmentError; then no file is left.</summary>
        internal static SharedMapping TryCreate(string path, long size)
        {
            int fd = PrivateFile.Make(path);
            if (fd < 0) return null;
            FaultPoint.Reached("file.made");
            int error = Libc.Fallocate(fd, size); // a full /dev/shm is an error here, and never SIGBUS later
            FaultPoint.Reached("file.allocated");
            byte* start = null;
            if (error == 0)
            {
                start = Libc.Map(fd, size);
                if (start == null) error = Libc.Errno;
            }
            if (error == 0) return new SharedMapping(path, fd, start, size);
            Libc.close(fd);
            PrivateFile.Remove(path);
            if (error == Libc.ENOSPC || error == Libc.ENOMEM)
                throw new TransportException(WireCode.NoSpace, string.Format(
                    "{0} of {1} bytes does not fit into shared memory; use fewer envs or smaller images, or enlarge it "
                    + "(docker run --shm-size=1g; mount -o remount,size=1g /dev/shm)", path, size));
            throw new TransportException(WireCode.SegmentError, path + " cannot be made: " + Libc.Text(error));
        }

        internal uint Load32(long offset) { return Volatile.Read(ref *(uint*)(Start + offset)); }

        internal ulong Load64(long offset) { return Volatile.Read(ref *(ulong*)(Start + offset)); }

        internal void Store32(long offset, uint value) { Volatile.Write(ref *(uint*)(Start + offset), value); }

        internal void Store64(long offset, ulong value) { Volatile.Write(ref *(ulong*)(Start + offset), value); }

        /// <summary>Throws SegmentError when another process has cut the file: what is beyond its end is lost.</summary>
        internal void Check()
        {
            Libc.Status status;
            if (Libc.TryStat(_fd, out status) && status.Size < (ulong)Size)
                throw new TransportException(WireCode.SegmentError, string.Format(
                    "{0} was cut to {1} of {2} bytes by another process; start the engine again",
                    Path, status.Size, Size));
        }

        /// <summary>Removes the file; what is mapped stays valid.</summary>
        internal void Unlink() { PrivateFile.Remove(Path); }

        public void Dispose()
        {
            if (_start == null) return;
            Libc.munmap(_start, (ulong)Size);
            Libc.close(_fd);
            _start = null;
            _fd = -1;
        }
    }
}
