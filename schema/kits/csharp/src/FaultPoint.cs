using System.Diagnostics;
using System.Runtime.InteropServices;

namespace LuckyTransport
{
    /// <summary>
    /// Where the crash tests end or stop an engine, inside a publish. A build without the symbol LUCKY_FAULT_POINTS, as
    /// every one outside of those tests is, has no calls of it.
    /// </summary>
    internal static class FaultPoint
    {
        /// <summary>Names the step that has just been made.</summary>
        [Conditional("LUCKY_FAULT_POINTS")]
        internal static void Reached(string point)
        {
#if LUCKY_FAULT_POINTS
            lucky_fault_reached(point);
        }

        [DllImport("lucky_faults")]
        private static extern void lucky_fault_reached(string point);
#else
        }
#endif

        /// <summary>Copies, with a point where half of it is done.</summary>
        internal static unsafe void Copy(byte[] from, byte* to, string half)
        {
#if LUCKY_FAULT_POINTS
            int first = from.Length / 2;
            Marshal.Copy(from, 0, (System.IntPtr)to, first);
            Reached(half);
            Marshal.Copy(from, first, (System.IntPtr)(to + first), from.Length - first);
#else
            Marshal.Copy(from, 0, (System.IntPtr)to, from.Length);
#endif
        }
    }
}
