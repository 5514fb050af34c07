using System.Collections.Generic;

namespace LuckyTransport
{
    /// <summary>A message of schema/hazel_rpc.fbs. A text, array or map that is null counts as empty.</summary>
    public abstract class Message
    {
        internal abstract void Read(TableReader table);

        internal abstract void Write(TableWriter table);

        /// <summary>Adds every image in the message, in the order in which they are written.</summary>
        internal virtual void FindImages(List<ImageFrame> found) { }

        /// <summary>Reads a buffer of a peer. Throws RemoteProtocolError for anything but a sound one.</summary>
        internal static T Decode<T>(byte[] buffer) where T : Message, new()
        {
            var message = new T();
            var bytes = new ByteReader(typeof(T).Name, buffer);
            message.Read(bytes.Root());
            return message;
        }

        /// <summary>
        /// Writes a buffer. `prefixBytes` come before it where it will lie, and count for the alignment; the bytes of
        /// the images in `elsewhere` are left out.
        /// </summary>
        internal byte[] Encode(int prefixBytes = 0, ICollection<byte[]> elsewhere = null)
        {
            return new ByteWriter(prefixBytes, elsewhere).Root(this);
        }
    }

    /// <summary>A message that lies in place in its table: all of its fields are always there.</summary>
    public abstract class Struct
    {
        internal abstract int Size { get; }

        internal abstract int Alignment { get; }

        internal abstract void Read(ByteReader from, int at);

        internal abstract void Write(ByteWriter to, int at);
    }

    /// <summary>Where a handler runs; a property of its method, Methods.CameraService.ListCameras.Runs for example.</summary>
    public enum Runs
    {
        /// <summary>As Engine; callers expect the answer at once.</summary>
        Inline,

        /// <summary>On the thread of Serve, between two steps: it may read and change the world. The next step waits.</summary>
        Engine,

        /// <summary>On a thread of its own, beside the steps. It leaves the world alone.</summary>
        Pool,
    }

    /// <summary>A method with one request and one response.</summary>
    public sealed class UnaryMethod<TRequest, TResponse>
        where TRequest : Message, new()
        where TResponse : Message, new()
    {
        internal UnaryMethod(uint id, Runs runs)
        {
            Id = id;
            Runs = runs;
        }

        public uint Id { get; private set; }

        /// <summary>"/package.Service/Method".</summary>
        public string Name { get { return Methods.Names[Id]; } }

        public Runs Runs { get; private set; }
    }

    /// <summary>A method with one request and a stream of items.</summary>
    public sealed class StreamMethod<TRequest, TItem>
        where TRequest : Message, new()
        where TItem : Message, new()
    {
        internal StreamMethod(uint id, Runs runs)
        {
            Id = id;
            Runs = runs;
        }

        public uint Id { get; private set; }

        /// <summary>"/package.Service/Method".</summary>
        public string Name { get { return Methods.Names[Id]; } }

        public Runs Runs { get; private set; }
    }
}
