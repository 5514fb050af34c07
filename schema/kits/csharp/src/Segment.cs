using System;
using System.IO;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;

namespace LuckyTransport
{
    /// <summary>Where the regions of a segment lie, as lucky_transport/shm/segment/layout.py computes it.</summary>
    internal sealed class SegmentPlan
    {
        internal SegmentPlan(int numEnvs, long obsBytes, long actBytes, int numTerms, int ringBytes, int specBytes)
        {
            long n = numEnvs;
            Observations = Place(n * obsBytes);
            Actions = Place(n * actBytes);
            Rewards = Place(n * 4);
            Terminated = Place(n);
            Truncated = Place(n);
            Control = Place(n);
            Signals = Place(numTerms * n * 4);
            RingBytes = ringBytes;
            RingToClient = Place(SegmentLayout.RingHeadBytes + ringBytes);
            RingToEngine = Place(SegmentLayout.RingHeadBytes + ringBytes);
            Spec = Place(specBytes);
            Error = Place(SegmentLayout.ErrorBytes);
        }

        internal long Observations, Actions, Rewards, Terminated, Truncated, Control, Signals;
        internal long RingToClient, RingToEngine, Spec, Error;
        internal int RingBytes;
        internal long TotalSize = SegmentLayout.HeaderBytes;

        private long Place(long size)
        {
            const long alignment = SegmentLayout.RegionAlignment;
            long offset = TotalSize;
            TotalSize = (offset + size + alignment - 1) / alignment * alignment;
            return offset;
        }
    }

    /// <summary>What the header says of a batch besides the text of its spec.</summary>
    internal struct SegmentSizes
    {
        internal int NumEnvs, ObsSize, ActSize, NumTerms, RingBytes;
        internal ElementType ObsType, ActType;
        internal bool Hold;
    }

    /// <summary>A segment that this process made: its file, its lock file and its header.</summary>
    internal sealed unsafe class Segment : IDisposable
    {
        internal const string Directory = "/dev/shm";

        private static readonly Regex NamePattern = new Regex(@"^[A-Za-z0-9_.-]{1,200}\z");
        private static readonly Regex SlotFiles = new Regex(@"^\.(images|looks)\.[0-9]{1,10}\z");

        internal readonly SharedMapping Mapping;
        internal readonly SegmentPlan Plan;
        internal readonly LockFile Lock;

        private Segment(SharedMapping mapping, SegmentPlan plan, LockFile lockFile)
        {
            Mapping = mapping;
            Plan = plan;
            Lock = lockFile;
        }

        /// <summary>
        /// Makes the segment; a dead engine's of that name is replaced. It is not ready until PublishReady. Throws Busy
        /// when a living engine has it, SegmentError when the name belongs to something else, NoSpace, ConfigError.
        /// </summary>
        internal static Segment Create(string name, BatchSpec spec, int ringBytes)
        {
            if (!NamePattern.IsMatch(name) || name.StartsWith(".") || name.EndsWith(".lock")
                || Regex.IsMatch(name, @"\.(images|looks)\.[0-9]{1,10}"))
                throw new TransportException(WireCode.ConfigError, string.Format(
                    "shared-memory name '{0}'; use letters, digits, '_', '-' and '.', e.g. lucky_demo", name));
            if (ringBytes < 4096 || (ringBytes & (ringBytes - 1)) != 0)
                throw new TransportException(WireCode.SpecError, string.Format(
                    "ring of {0} bytes: expected a power of two, at least 4096", ringBytes));
            byte[] text = Encoding.UTF8.GetBytes(spec.ToJson());
            string path = Path.Combine(Directory, name);
            LockFile taken = LockFile.TryAcquire(path + ".lock");
            if (taken == null)
                throw new TransportException(WireCode.Busy, string.Format(
                    "segment {0} belongs to a living engine; use another name", path));
            try
            {
                RemoveDead(path);
                var sizes = new SegmentSizes
                {
                    NumEnvs = spec.NumEnvs, ObsSize = spec.Observation.Size, ActSize = spec.Action.Size,
                    NumTerms = spec.NumTerms, RingBytes = ringBytes, ObsType = spec.Observation.Type,
                    ActType = spec.Action.Type, Hold = spec.Hold,
                };
                var plan = new SegmentPlan(spec.NumEnvs, spec.Observation.SizeBytes, spec.Action.SizeBytes,
                    spec.NumTerms, ringBytes, text.Length);
                SharedMapping mapping = SharedMapping.TryCreate(path, plan.TotalSize);
                if (mapping == null)
                    throw new TransportException(WireCode.SegmentError, path + " was made by another process just now");
                WriteHeader(mapping.Start, plan, sizes, text, (uint)Libc.getpid(), StartTime());
                mapping.Store64(HeaderField.ServerLock, taken.Own);
                mapping.Store64(HeaderField.ServerPidNamespace, PidNamespace());
                // this side parks
                mapping.Store32(HeaderField.EngineFeatures, mapping.Load32(HeaderField.EngineFeatures) | (uint)Feature.Parks);
                return new Segment(mapping, plan, taken);
            }
            catch
            {
                taken.Release();
                throw;
            }
        }

        /// <summary>Fills the header and the spec of memory that is all 0; the version word is not written.</summary>
        internal static void WriteHeader(
            byte* start, SegmentPlan plan, SegmentSizes sizes, byte[] spec, uint pid, ulong started)
        {
            Action<int, long> word = (field, value) => *(uint*)(start + field) = (uint)value;
            Action<int, long> number = (field, value) => *(ulong*)(start + field) = (ulong)value;
            word(HeaderField.Magic, SegmentLayout.Magic);
            word(HeaderField.ServerPid, pid);
            word(HeaderField.NumEnvs, sizes.NumEnvs);
            word(HeaderField.ObsSize, sizes.ObsSize);
            word(HeaderField.ActSize, sizes.ActSize);
            FaultPoint.Reached("header.half");
            number(HeaderField.ObsOffset, plan.Observations);
            number(HeaderField.ActOffset, plan.Actions);
            number(HeaderField.RewardsOffset, plan.Rewards);
            number(HeaderField.DonesOffset, plan.Terminated);
            number(HeaderField.ResetsOffset, plan.Control);
            number(HeaderField.CmdS2cOffset, plan.RingToClient);
            number(HeaderField.CmdC2sOffset, plan.RingToEngine);
            word(HeaderField.CmdRingSize, sizes.RingBytes);
            word(HeaderField.ExtSize, SegmentLayout.ExtensionBytes);
            Feature features = Feature.Wake | Feature.Hold | Feature.Status | Feature.Signals | Feature.Truncated | Feature.Spec;
            word(HeaderField.EngineFeatures, (uint)(sizes.Hold ? features : features & ~Feature.Hold));
            word(HeaderField.EngineState, (uint)EngineState.Ready);
            number(HeaderField.ServerStart, (long)started);
            number(HeaderField.TotalSize, plan.TotalSize);
            number(HeaderField.TruncatedOffset, plan.Truncated);
            number(HeaderField.SignalsOffset, plan.Signals);
            word(HeaderField.NumTerms, sizes.NumTerms);
            word(HeaderField.ObsDtype, (uint)sizes.ObsType);
            word(HeaderField.ActDtype, (uint)sizes.ActType);
            word(HeaderField.ObsSlots, 1);
            number(HeaderField.SpecOffset, plan.Spec);
            word(HeaderField.SpecSize, spec.Length);
            word(HeaderField.ErrorSize, SegmentLayout.ErrorBytes);
            number(HeaderField.ErrorOffset, plan.Error);
            using (var sha = SHA256.Create())
                *(ulong*)(start + HeaderField.SchemaHash) = BitConverter.ToUInt64(sha.ComputeHash(spec), 0);
            for (int i = 0; i < spec.Length; i++) start[plan.Spec + i] = spec[i];
        }

        /// <summary>Writes the version word: clients may attach. Everything else was written before.</summary>
        internal void PublishReady()
        {
            FaultPoint.Reached("header.written");
            Mapping.Store32(HeaderField.Version, SegmentLayout.Version);
            FaultPoint.Reached("header.ready");
        }

        /// <summary>Says why the last exchange has no frame; the text is cut to the error region.</summary>
        internal void WriteError(TransportException error)
        {
            byte[] text = Encoding.UTF8.GetBytes(error.Message);
            int length = Math.Min(text.Length, SegmentLayout.ErrorBytes - 8);
            byte* at = Mapping.Start + Plan.Error;
            *(uint*)at = (uint)error.Code;
            *(uint*)(at + 4) = (uint)length;
            for (int i = 0; i < length; i++) at[8 + i] = text[i];
        }

        /// <summary>Removes the segment, its images and its lock file, and lets go of the memory.</summary>
        public void Dispose()
        {
            RemoveSlotFiles(Mapping.Path);
            FaultPoint.Reached("segment.beside");
            Mapping.Unlink();
            FaultPoint.Reached("segment.removed");
            Lock.Release();
            Mapping.Dispose();
        }

        private static void RemoveDead(string path)
        {
            int fd = PrivateFile.Open(path);
            if (fd < 0) return;
            uint magic = 0;
            long count = Libc.pread(fd, &magic, 4, 0);
            Libc.close(fd);
            if (count != 0 && magic != 0 && magic != SegmentLayout.Magic)
                throw new TransportException(WireCode.SegmentError, path + " exists and is no segment; use another name");
            RemoveSlotFiles(path);
            FaultPoint.Reached("remove_dead.beside");
            PrivateFile.Remove(path);
            FaultPoint.Reached("remove_dead.segment");
        }

        private static void RemoveSlotFiles(string path)
        {
            foreach (string file in System.IO.Directory.GetFiles(Directory, Path.GetFileName(path) + ".*"))
                if (SlotFiles.IsMatch(file.Substring(path.Length))) PrivateFile.Remove(file);
        }

        // field 22 of /proc/self/stat: clock ticks since boot
        private static ulong StartTime()
        {
            string stat = File.ReadAllText("/proc/self/stat");
            return ulong.Parse(stat.Substring(stat.LastIndexOf(')') + 2).Split(' ')[19]);
        }

        private static ulong PidNamespace()
        {
            Libc.Status status;
            return Libc.TryStatTarget("/proc/self/ns/pid", out status) ? status.Inode : 0;
        }
    }
}
