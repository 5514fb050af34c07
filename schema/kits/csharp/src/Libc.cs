using System;
using System.Runtime.InteropServices;

namespace LuckyTransport
{
    /// <summary>
    /// The system calls that .NET has no class for: files made with O_EXCL and posix_fallocate, record locks, futexes.
    /// Linux on x86-64 and arm64, little-endian.
    /// </summary>
    internal static unsafe class Libc
    {
        internal const int ENOENT = 2, EINTR = 4, EAGAIN = 11, ENOMEM = 12, EACCES = 13, EEXIST = 17, ENOSPC = 28;
        internal const int O_RDONLY = 0, O_RDWR = 2, O_CREAT = 0x40, O_EXCL = 0x80, O_NONBLOCK = 0x800, O_CLOEXEC = 0x80000;
        internal const int F_SETLK = 6, F_OFD_GETLK = 36;
        internal const short F_WRLCK = 1, F_UNLCK = 2;
        internal const int S_IFMT = 0xF000, S_IFREG = 0x8000, S_IFDIR = 0x4000;

        private const int FutexWait = 0, FutexWake = 1;
        private const int AtFdcwd = -100, AtSymlinkNofollow = 0x100, AtEmptyPath = 0x1000;
        private const uint StatxBasic = 0x7FF;
        private const int ProtReadWrite = 3, MapShared = 1;

        private static readonly bool IsArm = RuntimeInformation.ProcessArchitecture == Architecture.Arm64;
        private static readonly long FutexNumber = IsArm ? 98 : 202;

        /// <summary>The one open flag whose number differs.</summary>
        internal static readonly int O_NOFOLLOW = IsArm ? 0x8000 : 0x20000;

        [StructLayout(LayoutKind.Sequential)]
        internal struct Flock
        {
            internal short Type, Whence;
            internal long Start, Length;
            internal int Pid;
        }

        /// <summary>What is used of struct statx, whose layout is the same on every machine.</summary>
        [StructLayout(LayoutKind.Explicit, Size = 256)]
        internal struct Status
        {
            [FieldOffset(20)] internal uint Uid;
            [FieldOffset(28)] internal ushort Mode;
            [FieldOffset(32)] internal ulong Inode;
            [FieldOffset(40)] internal ulong Size;
            [FieldOffset(136)] internal uint DeviceMajor;
            [FieldOffset(140)] internal uint DeviceMinor;

            internal bool IsDirectory { get { return (Mode & S_IFMT) == S_IFDIR; } }

            internal bool IsSameFile(Status other)
            {
                return Inode == other.Inode && DeviceMajor == other.DeviceMajor && DeviceMinor == other.DeviceMinor;
            }
        }

        [StructLayout(LayoutKind.Sequential)]
        private struct TimeSpec
        {
            internal long Seconds, Nanoseconds;
        }

        [DllImport("libc", EntryPoint = "open", SetLastError = true)]
        private static extern int OpenFile(string path, int flags, uint mode);

        [DllImport("libc", SetLastError = true)]
        internal static extern int close(int fd);

        [DllImport("libc", SetLastError = true)]
        internal static extern int fchmod(int fd, uint mode);

        [DllImport("libc", SetLastError = true)]
        internal static extern int unlink(string path);

        [DllImport("libc", SetLastError = true)]
        internal static extern long pread(int fd, void* buffer, ulong count, long offset);

        [DllImport("libc")]
        internal static extern uint geteuid();

        [DllImport("libc")]
        internal static extern int getpid();

        [DllImport("libc")]
        internal static extern int sched_yield();

        [DllImport("libc")]
        internal static extern int sched_getcpu();

        [DllImport("libc")]
        internal static extern void* memset(void* memory, int value, ulong count);

        [DllImport("libc", EntryPoint = "posix_fallocate")]
        private static extern int FallocateOnce(int fd, long offset, long length);

        [DllImport("libc", EntryPoint = "statx", SetLastError = true)]
        private static extern int Statx(int directory, string path, int flags, uint mask, Status* status);

        [DllImport("libc", EntryPoint = "mmap", SetLastError = true)]
        private static extern void* MapMemory(void* where, ulong length, int protection, int flags, int fd, long offset);

        [DllImport("libc", SetLastError = true)]
        internal static extern int munmap(void* memory, ulong length);

        [DllImport("libc", EntryPoint = "fcntl", SetLastError = true)]
        private static extern int Control(int fd, int command, void* argument);

        [DllImport("libc", EntryPoint = "syscall")]
        private static extern long Futex(long number, int* word, int operation, int value, TimeSpec* timeout, void* word2, int value3);

        [DllImport("libc", EntryPoint = "strerror")]
        private static extern IntPtr StringOfError(int error);

        internal static int Errno { get { return Marshal.GetLastWin32Error(); } }

        internal static string Text(int error) { return Marshal.PtrToStringAnsi(StringOfError(error)); }

        internal static int Open(string path, int flags, uint mode = 0)
        {
            int fd;
            do fd = OpenFile(path, flags, mode); while (fd < 0 && Errno == EINTR);
            return fd;
        }

        /// <summary>Reserves all pages; returns an error number, 0 for success.</summary>
        internal static int Fallocate(int fd, long length)
        {
            int error;
            do error = FallocateOnce(fd, 0, length); while (error == EINTR);
            return error;
        }

        internal static bool TryStat(int fd, out Status status)
        {
            fixed (Status* at = &status) return Statx(fd, "", AtEmptyPath, StatxBasic, at) == 0;
        }

        /// <summary>The status of the path itself, not of what a link points to.</summary>
        internal static bool TryStat(string path, out Status status)
        {
            fixed (Status* at = &status) return Statx(AtFdcwd, path, AtSymlinkNofollow, StatxBasic, at) == 0;
        }

        /// <summary>The status of what the path points to.</summary>
        internal static bool TryStatTarget(string path, out Status status)
        {
            fixed (Status* at = &status) return Statx(AtFdcwd, path, 0, StatxBasic, at) == 0;
        }

        /// <summary>Returns null on failure.</summary>
        internal static byte* Map(int fd, long length)
        {
            void* memory = MapMemory(null, (ulong)length, ProtReadWrite, MapShared, fd, 0);
            return memory == (void*)-1 ? null : (byte*)memory;
        }

        internal static int Lock(int fd, int command, ref Flock request)
        {
            fixed (Flock* at = &request) return Control(fd, command, at);
        }

        /// <summary>Sleeps while the word is 1, for so long at most.</summary>
        internal static void WaitWhileOne(int* word, long nanoseconds)
        {
            var timeout = new TimeSpec { Seconds = nanoseconds / 1000000000, Nanoseconds = nanoseconds % 1000000000 };
            Futex(FutexNumber, word, FutexWait, 1, &timeout, null, 0);
        }

        internal static void WakeOne(int* word) { Futex(FutexNumber, word, FutexWake, 1, null, null, 0); }
    }
}
