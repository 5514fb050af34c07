using System.IO;

namespace LuckyTransport
{
    /// <summary>The client: known by the byte that it holds of the lock file; one without a lock by pid and start.</summary>
    internal sealed class PeerProcess
    {
        private readonly LockFile _lock;
        private readonly ulong _byte, _started;

        internal PeerProcess(LockFile lockFile, ulong ownByte, uint pid, ulong started)
        {
            _lock = lockFile;
            _byte = ownByte;
            Pid = pid;
            _started = started;
        }

        /// <summary>As the client calls itself, for messages.</summary>
        internal uint Pid { get; private set; }

        internal bool IsAlive { get { return _byte != 0 ? _lock.IsHeld(_byte) : HasStarted(); } }

        private bool HasStarted()
        {
            try
            {
                string stat = File.ReadAllText("/proc/" + Pid + "/stat");
                string[] fields = stat.Substring(stat.LastIndexOf(')') + 2).Split(' ');
                return fields[0] != "Z" && (_started == 0 || fields[19] == _started.ToString());
            }
            catch (IOException)
            {
                return false;
            }
        }
    }
}
