using System;
using System.Runtime.InteropServices;
using System.Threading;

namespace LuckyTransport
{
    /// <summary>
    /// Stops a transport on SIGINT and SIGTERM, so that its segment is removed. Dispose it after Serve.
    /// </summary>
    public sealed class TerminationSignals : IDisposable
    {
        private const int Sigint = 2, Sigterm = 15, PollMs = 1000;
        private const int CountOffset = sizeof(int); // signal_info of Mono's support/signal.c: the number, then the count
        private static readonly TimeSpan Grace = TimeSpan.FromSeconds(5);

        private readonly SharedMemoryTransport _transport;
        private readonly ManualResetEvent _watching = new ManualResetEvent(false);
        private volatile bool _disposed;

        /// <summary>From here on the signals stop the transport.</summary>
        public TerminationSignals(SharedMemoryTransport transport)
        {
            _transport = transport;
            if (Type.GetType("Mono.Runtime") != null)
            {
                // Without a terminal, Mono raises neither of the events below: its own library watches the signals.
                new Thread(WatchUnderMono) { IsBackground = true, Name = "signals" }.Start();
                _watching.WaitOne(Grace);
                return;
            }
            Console.CancelKeyPress += OnInterrupt; // SIGINT
            AppDomain.CurrentDomain.ProcessExit += OnExit; // SIGTERM; the process ends when the handler returns
        }

        public void Dispose()
        {
            _disposed = true;
            Console.CancelKeyPress -= OnInterrupt;
            AppDomain.CurrentDomain.ProcessExit -= OnExit;
        }

        private void OnInterrupt(object sender, ConsoleCancelEventArgs arguments)
        {
            arguments.Cancel = true;
            _transport.Stop();
        }

        private void OnExit(object sender, EventArgs arguments)
        {
            _transport.Stop();
            _transport.WaitClosed(Grace);
        }

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        private delegate int IsShuttingDown();

        [DllImport("MonoPosixHelper", EntryPoint = "Mono_Unix_UnixSignal_install", SetLastError = true)]
        private static extern IntPtr Install(int signal);

        [DllImport("MonoPosixHelper", EntryPoint = "Mono_Unix_UnixSignal_uninstall")]
        private static extern int Uninstall(IntPtr signal);

        [DllImport("MonoPosixHelper", EntryPoint = "Mono_Unix_UnixSignal_WaitAny")]
        private static extern int WaitAny(IntPtr[] signals, int count, int timeoutMs, IsShuttingDown isShuttingDown);

        private void WatchUnderMono()
        {
            IsShuttingDown never = () => _disposed ? 1 : 0;
            try
            {
                IntPtr[] signals = { Install(Sigint), Install(Sigterm) };
                _watching.Set();
                if (Array.IndexOf(signals, IntPtr.Zero) >= 0) return;
                while (!_disposed)
                {
                    WaitAny(signals, signals.Length, PollMs, never);
                    // It returns the timeout for a signal that came between two waits; the count has that one, too.
                    if (Array.Exists(signals, signal => Marshal.ReadInt32(signal, CountOffset) > 0)) _transport.Stop();
                }
                foreach (IntPtr signal in signals) Uninstall(signal);
            }
            catch (DllNotFoundException)
            {
                _watching.Set();
                Console.Error.WriteLine("lucky_transport: no MonoPosixHelper: SIGINT and SIGTERM end this process without a clean-up");
            }
        }
    }
}
