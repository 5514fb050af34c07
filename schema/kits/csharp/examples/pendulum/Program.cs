using System;
using LuckyTransport;

public static class Program
{
    /// <summary>pendulum.exe NAME [ENVS [MAX_TICKS]]: serves shm://NAME until SIGINT or SIGTERM.</summary>
    public static int Main(string[] arguments)
    {
        string name = arguments.Length > 0 ? arguments[0] : "pendulum";
        int numEnvs = arguments.Length > 1 ? int.Parse(arguments[1]) : 4;
        int maxTicks = arguments.Length > 2 ? int.Parse(arguments[2]) : 200;
        try
        {
            using (var transport = new SharedMemoryTransport(name, new Pendulum(numEnvs, maxTicks)))
            using (new TerminationSignals(transport))
            {
                Console.WriteLine("serving {0} pendulums at shm://{1}", numEnvs, name);
                transport.Serve();
            }
            return 0;
        }
        catch (TransportException error)
        {
            Console.Error.WriteLine("pendulum: {0}: {1}", error.Code, error.Message);
            return 1;
        }
    }
}
