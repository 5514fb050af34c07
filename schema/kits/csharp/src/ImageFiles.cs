using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;
using System.Threading;

namespace LuckyTransport
{
    /// <summary>
    /// A file of image slots beside a segment. A slot has one owner at a time: 0 is the engine, any other value the
    /// client, from the message that names the slot until it writes 0. Its number is odd while it is written.
    /// </summary>
    internal sealed unsafe class ImageFile
    {
        internal const int Slots = 3;
        private const int Page = 4096, Words = 64, WordsStep = 128, Owner = 4;

        private readonly SharedMapping _mapping;

        private ImageFile(SharedMapping mapping, uint number, long slotBytes)
        {
            _mapping = mapping;
            Number = number;
            SlotBytes = slotBytes;
        }

        /// <summary>Names the file in messages.</summary>
        internal uint Number { get; private set; }

        internal long SlotBytes { get; private set; }

        /// <summary>Makes a file; null when there is one of that number. Throws NoSpace, SegmentError.</summary>
        internal static ImageFile TryCreate(string segment, uint number, int leastBytes)
        {
            long slotBytes = ((long)leastBytes + Page - 1) / Page * Page;
            SharedMapping mapping = SharedMapping.TryCreate(segment + ".images." + number, Page + Slots * slotBytes);
            if (mapping == null) return null;
            mapping.Store32(0, SegmentLayout.ImagesMagic);
            mapping.Store32(4, SegmentLayout.ImagesVersion);
            mapping.Store32(8, Slots);
            mapping.Store64(16, (ulong)slotBytes);
            FaultPoint.Reached("image.file");
            return new ImageFile(mapping, number, slotBytes);
        }

        internal uint OwnerOf(int slot) { return _mapping.Load32(Words + WordsStep * slot + Owner); }

        internal void GiveBack(int slot) { _mapping.Store32(Words + WordsStep * slot + Owner, 0); }

        /// <summary>Copies an image into a slot that the engine owns, and hands it over.</summary>
        internal ImagePlace Post(int slot, byte[] image, uint number)
        {
            _mapping.Check();
            int words = Words + WordsStep * slot;
            _mapping.Store32(words, number - 1);
            Thread.MemoryBarrier(); // the odd number is there before the first byte
            FaultPoint.Reached("image.taken");
            FaultPoint.Copy(image, _mapping.Start + Page + slot * SlotBytes, "image.half");
            FaultPoint.Reached("image.written");
            _mapping.Store32(words, number);
            FaultPoint.Reached("image.numbered");
            _mapping.Store32(words + Owner, number);
            FaultPoint.Reached("image.handed_over");
            return new ImagePlace { Length = (ulong)image.Length, File = Number, Slot = (uint)slot, Number = number };
        }

        /// <summary>Removes the file; what the client has mapped stays valid.</summary>
        internal void Unlink() { _mapping.Unlink(); }

        internal void Unmap() { _mapping.Dispose(); }
    }

    /// <summary>Where the images of one stream go, or those of all single answers. One thread at a time posts.</summary>
    internal sealed class ImageSink
    {
        private const uint LargestNumber = 0xFFFFFFFE;

        private readonly ImageStore _store;
        private readonly List<ImageFile> _files = new List<ImageFile>();
        private uint _number;
        private bool _ended;

        internal ImageSink(ImageStore store) { _store = store; }

        /// <summary>False while the client has so many images of the stream that it does not read the next one soon.</summary>
        internal bool HasRoom
        {
            get
            {
                lock (_files)
                    return _files.Sum(file => Enumerable.Range(0, ImageFile.Slots).Count(slot => file.OwnerOf(slot) != 0)) < ImageFile.Slots;
            }
        }

        /// <summary>Puts an image into a slot; its place has file 0 where it stays in its message.</summary>
        internal ImagePlace Put(byte[] image)
        {
            lock (_files)
            {
                if (_ended || image == null || image.Length == 0) return new ImagePlace();
                _number = _number % LargestNumber + 2;
                foreach (ImageFile file in _files)
                    for (int slot = 0; slot < ImageFile.Slots; slot++)
                        if (file.SlotBytes >= image.Length && file.OwnerOf(slot) == 0) return file.Post(slot, image, _number);
                ImageFile made = _store.TryMake(image.Length);
                if (made == null) return new ImagePlace();
                _files.Add(made);
                return made.Post(0, image, _number);
            }
        }

        /// <summary>Frees places that are not sent to the client after all.</summary>
        internal void TakeBack(IEnumerable<ImagePlace> places)
        {
            lock (_files)
                foreach (ImagePlace place in places)
                    foreach (ImageFile file in _files.Where(file => file.Number == place.File)) file.GiveBack((int)place.Slot);
        }

        /// <summary>Removes the files: at once when the client has given up, else when it has given all back.</summary>
        internal void End(bool isLost)
        {
            lock (_files)
            {
                if (_ended) return;
                _ended = true;
                _store.Retire(this, _files, isLost);
                _files.Clear();
            }
        }
    }

    /// <summary>The files of one client.</summary>
    internal sealed class ImageStore
    {
        private const int MaxFiles = 64;

        private readonly string _segment;
        private readonly List<ImageFile> _files = new List<ImageFile>(), _retired = new List<ImageFile>();
        private readonly List<ImageSink> _sinks = new List<ImageSink>();
        private uint _number;
        private bool _closed;

        internal ImageStore(string segment)
        {
            _segment = segment;
            Shared = Open();
        }

        /// <summary>The images of single answers.</summary>
        internal ImageSink Shared { get; private set; }

        internal ImageSink Open()
        {
            var sink = new ImageSink(this);
            lock (_sinks) _sinks.Add(sink);
            return sink;
        }

        /// <summary>A new file; null when there are too many, or the client is gone. Throws NoSpace.</summary>
        internal ImageFile TryMake(int leastBytes)
        {
            lock (_retired)
            {
                Sweep();
                if (_closed || _files.Count >= MaxFiles) return null;
                ImageFile made;
                do made = ImageFile.TryCreate(_segment, ++_number, leastBytes); while (made == null);
                _files.Add(made);
                return made;
            }
        }

        internal void Retire(ImageSink sink, IEnumerable<ImageFile> files, bool isLost)
        {
            lock (_sinks) _sinks.Remove(sink);
            lock (_retired)
            {
                foreach (ImageFile file in files)
                    if (isLost || _closed) Remove(file);
                    else _retired.Add(file);
                Sweep();
            }
        }

        /// <summary>The client is gone: no further files; those there are go with their streams.</summary>
        internal void Close()
        {
            ImageSink[] sinks;
            lock (_sinks) sinks = _sinks.ToArray();
            lock (_retired)
            {
                _closed = true;
                foreach (ImageFile file in _retired.ToArray()) Remove(file);
                _retired.Clear();
            }
            foreach (ImageSink sink in sinks) sink.End(true);
        }

        private void Sweep()
        {
            foreach (ImageFile file in _retired.ToArray())
            {
                if (Enumerable.Range(0, ImageFile.Slots).Any(slot => file.OwnerOf(slot) != 0)) continue;
                Remove(file);
                _retired.Remove(file);
            }
        }

        private void Remove(ImageFile file)
        {
            if (!_files.Remove(file)) return;
            file.Unlink();
            file.Unmap();
        }
    }
}
