// The layout of a lucky_transport segment, version 1 (little-endian), and what goes with it.
//
// Made from lucky_transport/shm/segment/layout.py and its neighbours by schema/generate.py; do not edit.
// Counters (frame_seq, action_seq), park words and the version need acquire loads and release stores.

namespace LuckyTransport
{
    /// <summary>Sizes and marks of a segment, its rings and its files of images.</summary>
    public static class SegmentLayout
    {
        public const uint Magic = 0x4c524243u;
        public const uint Version = 1u;
        public const int HeaderBytes = 4096;
        public const int ExtensionOffset = 1024;
        public const int ExtensionBytes = 1024;
        public const int RegionAlignment = 64;
        public const int DefaultRingBytes = 524288;
        public const int ErrorBytes = 4096;
        public const int RingHeadBytes = 256;
        public const int RingReadPosition = 128;
        public const int RingWriterPark = 192;
        public const uint RingSkip = 0xffffffffu;
        public const int RingSmallest = 64;
        public const uint ImagesMagic = 0x4d494b4cu;
        public const int ImagesVersion = 2;
    }

    /// <summary>How long a side looks, yields and parks: lucky_transport/shm/timing.py.</summary>
    public static class Timing
    {
        public const int GilLooks = 64;
        public const int PauseNs = 10000;
        public const int LostCoreNs = 1000000;
        public const int LostCoreWaits = 256;
        public const int Pauses = 16;
        public const int YieldNs = 150000;
        public const int SoonNs = 800000;
        public const int ScoreSoon = 4;
        public const int ScoreLate = -2;
        public const int SliceNs = 30000000;
        public const int SignalLooks = 64;
        public const int SpinSliceNs = 10000000;
        public const int PollNs = 500000;
        public const int TakeOverNs = 200000000;
        public const int FreedPollNs = 1000000;
        public const int FreedSliceNs = 20000000;
    }

    /// <summary>Byte offsets of the header's fields.</summary>
    public static class HeaderField
    {
        /// <summary>uint: 0x4C524243, 'LRBC'.</summary>
        public const int Magic = 0;
        /// <summary>uint: 1; written last, with release order: the segment is ready.</summary>
        public const int Version = 4;
        /// <summary>uint: engine process.</summary>
        public const int ServerPid = 8;
        /// <summary>uint: client process, 0 when none is attached.</summary>
        public const int ClientPid = 12;
        /// <summary>byte: 0 training (lock-step, all envs alike), 1 inference (free-running).</summary>
        public const int Mode = 16;
        /// <summary>uint: envs stepped together.</summary>
        public const int NumEnvs = 20;
        /// <summary>uint: observation elements per env.</summary>
        public const int ObsSize = 24;
        /// <summary>uint: action elements per env.</summary>
        public const int ActSize = 28;
        /// <summary>ulong: frames written; the engine adds 1 after the whole frame.</summary>
        public const int FrameSeq = 128;
        /// <summary>uint: 0 = a frame; else the wire code of the error in the error region (Feature.STATUS).</summary>
        public const int FrameStatus = 136;
        /// <summary>ulong: actions written; the client adds 1 after all actions.</summary>
        public const int ActionSeq = 256;
        /// <summary>ulong: observations [num_envs, obs_size].</summary>
        public const int ObsOffset = 384;
        /// <summary>ulong: actions [num_envs, act_size].</summary>
        public const int ActOffset = 392;
        /// <summary>ulong: rewards f32 [num_envs].</summary>
        public const int RewardsOffset = 400;
        /// <summary>ulong: terminated u8 [num_envs].</summary>
        public const int DonesOffset = 408;
        /// <summary>ulong: control u8 [num_envs]: 0 step, bit 0 reset, bit 1 hold.</summary>
        public const int ResetsOffset = 416;
        /// <summary>ulong: command ring, engine to client.</summary>
        public const int CmdS2cOffset = 424;
        /// <summary>ulong: command ring, client to engine.</summary>
        public const int CmdC2sOffset = 432;
        /// <summary>uint: data bytes of each ring, a power of two (a 256-byte head comes before them).</summary>
        public const int CmdRingSize = 440;
        /// <summary>ulong: images u8 [num_envs, height, width, channels], 0 when there are none.</summary>
        public const int ImageOffset = 448;
        /// <summary>uint: pixels.</summary>
        public const int ImageWidth = 456;
        /// <summary>uint: pixels.</summary>
        public const int ImageHeight = 460;
        /// <summary>uint: bytes per pixel.</summary>
        public const int ImageChannels = 464;
        /// <summary>byte: 1 when GPU buffers are exported.</summary>
        public const int GpuAvailable = 468;
        /// <summary>byte: 0 CPU, 1 CUDA IPC, 2 Vulkan external memory.</summary>
        public const int GpuObsMode = 469;
        /// <summary>byte[]: cudaIpcMemHandle_t.</summary>
        public const int GpuObsHandle = 470;
        /// <summary>uint: CUDA device ordinal.</summary>
        public const int GpuDeviceId = 536;
        /// <summary>uint: bytes of this block; a reader uses no field beyond it.</summary>
        public const int ExtSize = 1024;
        /// <summary>uint: Feature bits the engine understands.</summary>
        public const int EngineFeatures = 1028;
        /// <summary>uint: Feature bits the client understands; 0 for one that knows only the seed.</summary>
        public const int ClientFeatures = 1032;
        /// <summary>uint: 0 loading, 1 ready, 2 closing.</summary>
        public const int EngineState = 1036;
        /// <summary>ulong: engine's start time in clock ticks since boot (guards against a reused pid).</summary>
        public const int ServerStart = 1040;
        /// <summary>ulong: client's start time; set before its features, cleared before its pid.</summary>
        public const int ClientStart = 1048;
        /// <summary>ulong: bytes of the whole segment, without its arenas.</summary>
        public const int TotalSize = 1056;
        /// <summary>ulong: truncated u8 [num_envs].</summary>
        public const int TruncatedOffset = 1064;
        /// <summary>ulong: signals f32 [num_terms, num_envs]: reward terms, then termination terms.</summary>
        public const int SignalsOffset = 1072;
        /// <summary>uint: rows of the signals region.</summary>
        public const int NumTerms = 1080;
        /// <summary>uint: element type of observations: index into the dtype list, 0 = f32.</summary>
        public const int ObsDtype = 1084;
        /// <summary>uint: element type of actions, by the same codes.</summary>
        public const int ActDtype = 1088;
        /// <summary>uint: observation slots, one behind the other; frame n goes to slot n modulo this (SLOTS).</summary>
        public const int ObsSlots = 1092;
        /// <summary>ulong: the batch spec, UTF-8 JSON.</summary>
        public const int SpecOffset = 1096;
        /// <summary>uint: bytes of the spec.</summary>
        public const int SpecSize = 1104;
        /// <summary>uint: bytes of the error region.</summary>
        public const int ErrorSize = 1108;
        /// <summary>ulong: u32 wire code, u32 length, UTF-8 text: why the last exchange has no frame.</summary>
        public const int ErrorOffset = 1112;
        /// <summary>ulong: first 8 bytes of the spec's SHA-256.</summary>
        public const int SchemaHash = 1120;
        /// <summary>ulong: engine adds 1 whenever it looks at the segment: tells hung from idle.</summary>
        public const int Heartbeat = 1152;
        /// <summary>uint: 0 awake, 1 parked: the engine waits for actions or commands.</summary>
        public const int ParkEngine = 1280;
        /// <summary>uint: the CPU on which the client published last, plus 1: a hint; 0: not said.</summary>
        public const int PeerCpuEngine = 1284;
        /// <summary>uint: the client waits for a frame.</summary>
        public const int ParkFrame = 1408;
        /// <summary>uint: the CPU on which the engine published a frame last, plus 1.</summary>
        public const int PeerCpuFrame = 1412;
        /// <summary>uint: the client waits for a command's answer.</summary>
        public const int ParkCommand = 1536;
        /// <summary>uint: the CPU on which the engine wrote to the client's ring last, plus 1.</summary>
        public const int PeerCpuCommand = 1540;
        /// <summary>ulong: byte of the lock file that the engine alone holds for as long as it lives; 0: byte 0.</summary>
        public const int ServerLock = 1664;
        /// <summary>ulong: the client's; set before its features, 0 for a client that is known by its pid only.</summary>
        public const int ClientLock = 1672;
        /// <summary>ulong: pid namespace (inode) that server_pid and server_start are of; 0: not known.</summary>
        public const int ServerPidNamespace = 1680;
        /// <summary>ulong: the client's; set before its features.</summary>
        public const int ClientPidNamespace = 1688;
        /// <summary>ulong: bytes of the observations on the GPU; 0: not said, as many as here.</summary>
        public const int GpuObsSize = 1696;
        /// <summary>ulong: bytes from the begin of the allocation that gpu_obs_handle opens.</summary>
        public const int GpuObsOffset = 1704;
        /// <summary>uint: another for each handle; odd while it is changed; 0: there is only one.</summary>
        public const int GpuObsGeneration = 1712;
        /// <summary>uint: that of the handle the client has open, with bit 0 set; 0: none.</summary>
        public const int GpuClientGeneration = 1716;
        /// <summary>byte[]: of the device, the same in every process; zeros: by gpu_device_id.</summary>
        public const int GpuDeviceUuid = 1720;
        /// <summary>ulong: long messages, client to engine; the engine's own lie right behind (ARENAS).</summary>
        public const int ArenaOffset = 1736;
        /// <summary>ulong: bytes of each arena.</summary>
        public const int ArenaSize = 1744;
        /// <summary>uint: where the client reads them: 0 here, 1 on the GPU alone (DEVICE_ONLY).</summary>
        public const int ClientObservations = 1752;
        /// <summary>ulong: words of envs that are stepped on their own, and their control bytes (ENVS).</summary>
        public const int EnvsOffset = 1760;
        /// <summary>uint: 1 when there is memory for actions on the GPU.</summary>
        public const int GpuActAvailable = 1768;
        /// <summary>uint: as gpu_obs_mode.</summary>
        public const int GpuActMode = 1772;
        /// <summary>uint: CUDA device ordinal.</summary>
        public const int GpuActDeviceId = 1776;
        /// <summary>byte[]: cudaIpcMemHandle_t.</summary>
        public const int GpuActHandle = 1780;
        /// <summary>byte[]: of the device; zeros: by gpu_act_device_id.</summary>
        public const int GpuActDeviceUuid = 1844;
        /// <summary>ulong: bytes of the actions on the GPU.</summary>
        public const int GpuActSize = 1864;
        /// <summary>ulong: bytes from the begin of the allocation that gpu_act_handle opens.</summary>
        public const int GpuActOffset = 1872;
        /// <summary>uint: as gpu_obs_generation; 0: there is none.</summary>
        public const int GpuActGeneration = 1880;
        /// <summary>uint: of the handle the client has open, with bit 0 set; 0: none.</summary>
        public const int GpuActClientGeneration = 1884;
        /// <summary>ulong: the action_seq whose actions lie on the GPU; those of others lie here.</summary>
        public const int GpuActSeq = 1888;
        /// <summary>uint: of the two events, as gpu_obs_generation; 0: there are none.</summary>
        public const int GpuEventsGeneration = 1896;
        /// <summary>uint: CUDA device ordinal.</summary>
        public const int GpuEventsDeviceId = 1900;
        /// <summary>byte[]: of the device.</summary>
        public const int GpuEventsDeviceUuid = 1904;
        /// <summary>byte[]: cudaIpcEventHandle_t: the engine's work of a step is done; zeros: no events.</summary>
        public const int GpuFrameEvent = 1920;
        /// <summary>byte[]: the client's work of a step is done.</summary>
        public const int GpuClientEvent = 1984;
    }

    /// <summary>What a side understands.</summary>
    [System.Flags]
    public enum Feature : uint
    {
        Wake = 1,
        Hold = 2,
        Status = 4,
        Signals = 8,
        Truncated = 16,
        Spec = 32,
        Parks = 64,
        Slots = 128,
        Arenas = 256,
        DeviceOnly = 512,
        Envs = 1024,
        Events = 2048,
    }

    /// <summary>Element type of observations and actions.</summary>
    public enum ElementType : uint
    {
        Float32 = 0,
        Float64 = 1,
        Int8 = 2,
        Int16 = 3,
        Int32 = 4,
        Int64 = 5,
        Uint8 = 6,
        Uint16 = 7,
        Uint32 = 8,
        Uint64 = 9,
        Bool = 10,
    }

    /// <summary>What the engine says of itself.</summary>
    public enum EngineState : uint
    {
        Loading = 0,
        Ready = 1,
        Closing = 2,
    }

    /// <summary>What an envelope is in the life of its call.</summary>
    public enum Kind : uint
    {
        Request = 0,
        Response = 1,
        StreamItem = 2,
        Credit = 3,
        HalfClose = 4,
        End = 5,
        Cancel = 6,
        Error = 7,
        Fragment = 8,
        Headers = 9,
    }

    /// <summary>Class of an error.</summary>
    public enum WireCode : uint
    {
        TransportError = 1,
        ConfigError = 2,
        UnknownName = 3,
        MissingExtra = 4,
        BrokenPlugin = 5,
        NotReachable = 6,
        PeerDied = 7,
        PeerTimeout = 8,
        Busy = 9,
        ClosedError = 10,
        LocalProtocolError = 11,
        RemoteProtocolError = 12,
        SegmentError = 13,
        NoSpace = 14,
        SpecError = 15,
        EngineFailed = 16,
        Unimplemented = 17,
        Cancelled = 18,
        StatusError = 19,
        UnknownSession = 20,
        SessionEnded = 21,
        DeviceError = 22,
    }
}
