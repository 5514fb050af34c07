using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Text;
using LuckyTransport;

/// <summary>
/// Does with the kit what the lines of its standard input ask, and answers each with a line: the conformance vectors
/// of schema/kits/vectors, and messages at random. Words are separated by spaces, bytes are hexadecimal, "-" is none.
/// </summary>
public static unsafe class Conformance
{
    private const byte Guard = 0xA5;
    private const int GuardBytes = 4096;

    public static int Main()
    {
        var verbs = new Dictionary<string, Func<Queue<string>, string>>
        {
            { "segment", Segment }, { "ring", Ring }, { "hostile-ring", HostileRing }, { "envelope", Envelope },
            { "message", Message_ }, { "exchange", Exchange }, { "error", Error },
        };
        string line;
        while ((line = Console.ReadLine()) != null)
        {
            var words = new Queue<string>(line.Split(' '));
            Console.WriteLine(verbs[words.Dequeue()](words));
            Console.Out.Flush();
        }
        return 0;
    }

    // segment SPEC ENVS OBS_TYPE OBS_SIZE ACT_TYPE ACT_SIZE TERMS HOLD RING_BYTES PID STARTED: total size, header, spec
    private static string Segment(Queue<string> words)
    {
        byte[] spec = Bytes(words.Dequeue());
        var sizes = new SegmentSizes { NumEnvs = Int(words) };
        sizes.ObsType = (ElementType)Int(words);
        sizes.ObsSize = Int(words);
        sizes.ActType = (ElementType)Int(words);
        sizes.ActSize = Int(words);
        sizes.NumTerms = Int(words);
        sizes.Hold = Int(words) != 0;
        sizes.RingBytes = Int(words);
        var plan = new SegmentPlan(sizes.NumEnvs, new ArraySpec(sizes.ObsType, sizes.ObsSize).SizeBytes,
            new ArraySpec(sizes.ActType, sizes.ActSize).SizeBytes, sizes.NumTerms, sizes.RingBytes, spec.Length);
        uint pid = (uint)Int(words);
        using (var memory = new Memory((int)plan.TotalSize))
        {
            LuckyTransport.Segment.WriteHeader(memory.Start, plan, sizes, spec, pid, ulong.Parse(words.Dequeue()));
            return string.Join(" ", plan.TotalSize, Hex(memory.Copy(0, SegmentLayout.ExtensionOffset + SegmentLayout.ExtensionBytes)),
                Hex(memory.Copy((int)plan.Spec, spec.Length)));
        }
    }

    // ring SIZE POSITION (w:RECORD | r)...: what each step gives, then the memory
    private static string Ring(Queue<string> words)
    {
        int size = Int(words);
        uint position = uint.Parse(words.Dequeue());
        using (var memory = new Memory(SegmentLayout.RingHeadBytes + size))
        {
            *(uint*)memory.Start = position;
            *(uint*)(memory.Start + SegmentLayout.RingReadPosition) = position;
            var writer = new RingBuffer(memory.Start, (uint)size, null, true);
            var reader = new RingBuffer(memory.Start, (uint)size, null, false);
            var results = words.Select(step => step == "r" ? Hex(reader.TryRead()) : Write(writer, Bytes(step.Substring(2)))).ToList();
            results.Add(Hex(memory.Copy(0, SegmentLayout.RingHeadBytes + size)));
            return string.Join(" ", results);
        }
    }

    private static string Write(RingBuffer writer, byte[] record)
    {
        try
        {
            return writer.TryWrite(record) ? "written" : "full";
        }
        catch (TransportException)
        {
            return "refused";
        }
    }

    // hostile-ring SIZE MEMORY: the records that can be read, then what ended it
    private static string HostileRing(Queue<string> words)
    {
        int size = Int(words);
        byte[] content = Bytes(words.Dequeue());
        var results = new List<string>();
        using (var memory = new Memory(content.Length))
        {
            Marshal.Copy(content, 0, (IntPtr)memory.Start, content.Length);
            try
            {
                var reader = new RingBuffer(memory.Start, (uint)size, null, false);
                byte[] record;
                while ((record = reader.TryRead()) != null) results.Add(Hex(record));
                results.Add("empty");
            }
            catch (TransportException error)
            {
                results.Add(error.Code.ToString());
            }
            return string.Join(" ", results);
        }
    }

    // envelope RECORD: what the kit writes of what it read
    private static string Envelope(Queue<string> words)
    {
        return Again(() => ServerCalls.DecodeEnvelope(Bytes(words.Dequeue())).Encode(4));
    }

    // message CLASS BYTES: the same for a message
    private static string Message_(Queue<string> words)
    {
        Type type = typeof(Message).Assembly.GetType("LuckyTransport." + words.Dequeue(), true);
        MethodInfo decode = typeof(Message).GetMethod("Decode", BindingFlags.NonPublic | BindingFlags.Static).MakeGenericMethod(type);
        return Again(() =>
        {
            try
            {
                return ((Message)decode.Invoke(null, new object[] { Bytes(words.Dequeue()) })).Encode();
            }
            catch (TargetInvocationException error) when (error.InnerException is TransportException)
            {
                throw error.InnerException;
            }
        });
    }

    private static string Again(Func<byte[]> code)
    {
        try
        {
            return Hex(code());
        }
        catch (TransportException error)
        {
            return error.Code.ToString();
        }
    }

    // exchange ENVS RING_BYTES STEP...: what the steps that ask find
    private static string Exchange(Queue<string> words)
    {
        int numEnvs = Int(words);
        var plan = new SegmentPlan(numEnvs, 12, 4, 4, Int(words), 500);
        var results = new List<string>();
        using (var memory = new Memory((int)plan.TotalSize))
        {
            var channel = new EngineChannel(memory.Start, plan, numEnvs, () => { });
            foreach (string word in words)
            {
                string[] step = word.Split(':');
                if (step[0] == "next") results.Add(channel.Next(0).ToString().Replace(", ", "+"));
                else if (step[0] == "publish") channel.Publish(uint.Parse(step[1]));
                else if (step[0] == "resync") channel.Resync();
                else if (step[0] == "commands_read") channel.CommandsRead(uint.Parse(step[1]));
                else if (step[0] == "control") Marshal.Copy(Bytes(step[1]), 0, (IntPtr)(memory.Start + plan.Control), numEnvs);
                else if (step[0] == "expect") results.Add(Word(memory.Start, plan, step[1], null).ToString());
                else Word(memory.Start, plan, step[1], ulong.Parse(step[2]));
            }
            return string.Join(" ", results);
        }
    }

    private static ulong Word(byte* start, SegmentPlan plan, string name, ulong? value)
    {
        var places = new Dictionary<string, long>
        {
            { "frame_seq", HeaderField.FrameSeq }, { "action_seq", HeaderField.ActionSeq }, { "commands", plan.RingToEngine },
            { "frame_status", HeaderField.FrameStatus }, { "park_frame", HeaderField.ParkFrame },
        };
        byte* at = start + places[name];
        bool isLong = name.EndsWith("_seq");
        if (value.HasValue && isLong) *(ulong*)at = value.Value;
        else if (value.HasValue) *(uint*)at = (uint)value.Value;
        return isLong ? *(ulong*)at : *(uint*)at;
    }

    // error CLASS: its code
    private static string Error(Queue<string> words) { return ((uint)Enum.Parse(typeof(WireCode), words.Dequeue())).ToString(); }

    private static int Int(Queue<string> words) { return int.Parse(words.Dequeue()); }

    private static byte[] Bytes(string hex)
    {
        if (hex == "-") return new byte[0];
        return Enumerable.Range(0, hex.Length / 2).Select(i => Convert.ToByte(hex.Substring(2 * i, 2), 16)).ToArray();
    }

    private static string Hex(byte[] bytes)
    {
        if (bytes == null) return "none";
        var text = new StringBuilder(2 * bytes.Length);
        foreach (byte one in bytes) text.Append(one.ToString("x2"));
        return text.Length == 0 ? "-" : text.ToString();
    }

    /// <summary>Zeros between guards, which nothing may touch.</summary>
    private sealed class Memory : IDisposable
    {
        private readonly byte* _all;
        private readonly int _size;

        internal Memory(int size)
        {
            _size = size;
            _all = (byte*)Marshal.AllocHGlobal(size + 2 * GuardBytes);
            for (int i = 0; i < size + 2 * GuardBytes; i++) _all[i] = Guard;
            for (int i = 0; i < size; i++) Start[i] = 0;
        }

        internal byte* Start { get { return _all + GuardBytes; } }

        internal byte[] Copy(int offset, int length)
        {
            var copy = new byte[length];
            Marshal.Copy((IntPtr)(Start + offset), copy, 0, length);
            return copy;
        }

        public void Dispose()
        {
            for (int i = 0; i < GuardBytes; i++)
                if (_all[i] != Guard || Start[_size + i] != Guard) throw new InvalidOperationException("memory outside was written");
            Marshal.FreeHGlobal((IntPtr)_all);
        }
    }
}
