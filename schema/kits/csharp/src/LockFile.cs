using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Security.Cryptography;
using System.Threading;

namespace LuckyTransport
{
    /// <summary>
    /// The engine's place: byte 0 of the lock file beside a segment, and a byte of its own at a random offset, which
    /// tells it from its successor. The kernel releases the locks of a process when it ends, however it ends.
    /// </summary>
    internal sealed class LockFile
    {
        private const long EngineByte = 0, FirstOwnByte = 65536;

        // POSIX locks never conflict within one process: there this set decides. A process loses its locks when it
        // closes any descriptor of the file, so each file is opened once, and closed when the engine lets go.
        private static readonly HashSet<string> Held = new HashSet<string>();

        private readonly string _path;
        private int _fd;

        private LockFile(string path, int fd)
        {
            _path = path;
            _fd = fd;
            Own = AnyByte();
            while (!TryLock(fd, (long)Own)) Own = AnyByte();
        }

        /// <summary>The byte that this engine alone holds, for the header's server_lock.</summary>
        internal ulong Own { get; private set; }

        /// <summary>
        /// Takes the engine's place; null when a living engine, of this process or another one, keeps it. A process that
        /// removes what a dead engine left has the place for a moment; that is waited for. Throws SegmentError for a
        /// lock file that is not this user's alone.
        /// </summary>
        internal static LockFile TryAcquire(string path)
        {
            Stopwatch waited = Stopwatch.StartNew();
            LockFile taken;
            while ((taken = TryAcquireNow(path)) == null && waited.ElapsedMilliseconds < Timing.TakeOverNs / 1000000)
                Thread.Sleep(1);
            return taken;
        }

        private static LockFile TryAcquireNow(string path)
        {
            lock (Held)
            {
                if (Held.Contains(path)) return null;
                for (int tries = 0; tries < 8; tries++) // its last owner may unlink it between our open and our lock
                {
                    int fd = PrivateFile.Make(path);
                    if (fd < 0) fd = PrivateFile.Open(path);
                    if (fd < 0) continue;
                    FaultPoint.Reached("lock.opened");
                    if (!TryLock(fd, EngineByte))
                    {
                        Libc.close(fd);
                        return null;
                    }
                    Libc.Status opened, named;
                    if (Libc.TryStat(fd, out opened) && Libc.TryStat(path, out named) && opened.IsSameFile(named))
                    {
                        FaultPoint.Reached("lock.taken");
                        Held.Add(path);
                        return new LockFile(path, fd);
                    }
                    Libc.close(fd);
                }
                throw new TransportException(WireCode.NotReachable, string.Format(
                    "lock file {0} keeps vanishing; is another engine starting and stopping there?", path));
            }
        }

        /// <summary>True while another process holds the byte; a client's own is in the header's client_lock.</summary>
        internal bool IsHeld(ulong ownByte)
        {
            var request = new Libc.Flock { Type = Libc.F_WRLCK, Start = (long)(ownByte & long.MaxValue), Length = 1 };
            return Libc.Lock(_fd, Libc.F_OFD_GETLK, ref request) != 0 || request.Type != Libc.F_UNLCK;
        }

        /// <summary>Removes the file and lets go; idempotent.</summary>
        internal void Release()
        {
            lock (Held)
            {
                if (_fd < 0) return;
                PrivateFile.Remove(_path);
                FaultPoint.Reached("lock.removed");
                Libc.close(_fd); // which drops the locks
                _fd = -1;
                Held.Remove(_path);
            }
        }

        private static bool TryLock(int fd, long start)
        {
            var request = new Libc.Flock { Type = Libc.F_WRLCK, Start = start, Length = 1 };
            return Libc.Lock(fd, Libc.F_SETLK, ref request) == 0;
        }

        private static ulong AnyByte()
        {
            var random = new byte[8];
            using (var source = RandomNumberGenerator.Create()) source.GetBytes(random, 0, 7);
            return FirstOwnByte + BitConverter.ToUInt64(random, 0);
        }
    }
}
